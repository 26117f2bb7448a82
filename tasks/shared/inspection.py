"""The host at hand, looked at once a run."""

from pyinfra import host

from tasks.shared import serving
from tasks.shared.facts.machine import Machine, MachineFact
from tasks.shared.settings import settings

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
            cuda_home=serving.CUDA_HOME,
            wsl2=own.wsl2,
        )
    return _found[host.name]
