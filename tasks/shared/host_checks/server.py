"""Who holds the ports, and does a vLLM run that is not ours?"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.shared.facts.machine import Machine
from tasks.shared.host_checks.findings import Finding, ok, refusal, warning

if TYPE_CHECKING:
    from tasks.shared.settings import Settings


def judge(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    """The ports, and engines that somebody started by hand."""
    for port, setting in settings.ports.items():
        yield _port(machine, port, setting)
    yield from _engines(machine, settings)


def _port(machine: Machine, port: int, setting: str) -> Finding:
    what = f"port {port}"
    holders = machine.listeners.get(port)
    if holders is None:
        return ok(what, "is free")
    foreign = [process for process in holders if not process.is_ours]
    if holders and not foreign:
        return ok(what, "is ours")
    if foreign:
        holder, remedy = str(foreign[0]), f"end it (kill {foreign[0].pid}), or set {setting}"
    else:
        holder = "a process that the host does not show"
        remedy = f"look for it in Windows or in another WSL distribution, or set {setting}"
    return refusal(what, f"port {port} is held by {holder}", "free, or ours", remedy)


def _engines(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    foreign = [process for process in machine.engines if not process.is_ours]
    if not foreign:
        yield ok("other vLLM", "none runs")
        return
    first = foreign[0]
    shared = "RAM and cores" if settings.accelerator == "cpu" else "the GPUs' memory"
    yield warning(
        "other vLLM",
        f"{first} was not started by vllm.service",
        "none",
        f"stop it before a start of vllm.service (kill {first.pid}): the two share {shared}",
    )
