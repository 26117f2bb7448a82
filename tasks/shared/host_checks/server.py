"""Who holds the port, and does a vLLM run that is not ours?"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.shared.facts.machine import Machine
from tasks.shared.host_checks.findings import Finding, ok, refusal, warning

if TYPE_CHECKING:
    from tasks.shared.settings import Settings


def judge(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    """The port, and engines that somebody started by hand."""
    yield _port(machine, settings)
    yield from _engines(machine, settings)


def _port(machine: Machine, settings: "Settings") -> Finding:
    what = f"port {settings.port}"
    if not machine.port_is_taken:
        return ok(what, "is free")
    foreign = [process for process in machine.listeners if not process.is_ours]
    if machine.listeners and not foreign:
        return ok(what, "is vllm.service's")
    if foreign:
        holder, remedy = str(foreign[0]), f"end it (kill {foreign[0].pid}), or set port"
    else:
        holder = "a process that the host does not show"
        remedy = "look for it in Windows or in another WSL distribution, or set port"
    return refusal(
        what, f"port {settings.port} is held by {holder}", "free, or vllm.service's", remedy
    )


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
