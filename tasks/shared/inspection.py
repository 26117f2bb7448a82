"""The host at hand, looked at once a run."""

from pyinfra import host
from pyinfra.api.exceptions import DeployError

from tasks.shared import cuda, host_checks
from tasks.shared.engine import compat, serving
from tasks.shared.facts.access import AccessFact
from tasks.shared.facts.machine import Machine, MachineFact
from tasks.shared.host_checks import access, findings, secret_files
from tasks.shared.settings import runs_through_sudo, settings

_found: dict[str, Machine] = {}


def machine() -> Machine:
    """What the host at hand was like when this run first looked at it."""
    if host.name not in _found:
        own = settings()
        _found[host.name] = host.get_fact(
            MachineFact,
            model=own.model_dir,
            kv=serving.kv_dir(own),
            ports=list(own.ports),
            private=secret_files.on_host(own),
            cuda_home=serving.CUDA_HOME,
            wsl2=own.wsl2,
        )
    return _found[host.name]


def host_findings() -> list[findings.Finding]:
    """All that a check of the host at hand says."""
    own = settings()
    found: list[findings.Finding] = []
    if runs_through_sudo():
        found += access.judge(host.get_fact(AccessFact, _sudo=False))
    if can_be_asked(found):
        found += host_checks.judge(machine(), own)
    return [*found, *(findings.warning("settings", text, "", "") for text in compat.warnings(own))]


def cuda_repository() -> cuda.Repository:
    """Where the host at hand gets its toolkit from. DeployError where that cannot be."""
    try:
        return cuda.usable_repository(settings(), machine().os, machine().apt_sources)
    except ValueError as error:
        raise DeployError(f"{host.name}: {error}") from None


def can_be_asked(found: list[findings.Finding]) -> bool:
    """A sudo that is no good fails every question that is asked through it."""
    return not any(each.what == "sudo" and each.level == "refusal" for each in found)
