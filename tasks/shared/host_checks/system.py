"""Is this a system that the deploy can work on at all?"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.shared import cuda
from tasks.shared.facts.machine import Machine
from tasks.shared.host_checks.findings import Finding, ok, parts, refusal, threshold, warning
from tasks.shared.release import releases

if TYPE_CHECKING:
    from tasks.shared.settings import Settings


def judge(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    """Architecture, user, distribution, Python, C library, kernel and clock."""
    yield from _architecture(machine)
    yield from _root(machine)
    yield from _distribution(machine, settings)
    yield from _python(machine, settings)
    yield from _c_library(machine, settings)
    yield from _kernel(machine, settings)
    yield from _clock(machine)


def _architecture(machine: Machine) -> Iterator[Finding]:
    if machine.arch == "x86_64":
        yield ok("architecture", "x86_64")
    else:
        yield refusal(
            "architecture",
            machine.arch or "unknown",
            "x86_64",
            "use another machine: vLLM's wheels and NVIDIA's packages here are for x86_64",
        )


def _root(machine: Machine) -> Iterator[Finding]:
    if machine.user == "0":
        yield ok("root", "commands run as root")
    else:
        yield refusal(
            "root",
            f"commands run as user {machine.user or 'unknown'}",
            "root",
            "set _sudo = True for this host in inventory.py, or run pyinfra with --sudo",
        )


def _distribution(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    name = machine.os.split(" ")[0]
    if name not in ("debian", "ubuntu"):
        yield refusal(
            "distribution",
            machine.os or "unknown",
            "Debian or Ubuntu",
            "install one beside it: wsl --install Ubuntu-24.04",
        )
    elif (
        settings.accelerator == "cuda"
        and machine.os not in cuda.DISTRIBUTIONS
        and not settings.cuda_repository
    ):
        yield refusal(
            "distribution",
            machine.os,
            " or ".join(cuda.DISTRIBUTIONS),
            f"CUDA {cuda.version(settings.vllm_version)} does not compile there: install one "
            "beside it with wsl --install Ubuntu-24.04",
        )
    else:
        yield ok("distribution", machine.os)


def _python(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    pythons = releases.pythons(settings.vllm_version, settings.accelerator)
    if not machine.python:
        yield ok("python", "/usr/bin/python3 is not there yet: tasks/hostkit.py installs it")
    elif ".".join(machine.python.split(".")[:2]) not in pythons:
        yield refusal(
            "python",
            f"/usr/bin/python3 is {machine.python}",
            ", ".join(pythons),
            f"use a distribution with one that the {settings.accelerator} build is locked for, "
            f"{'Debian 12' if settings.accelerator == 'cpu' else 'Ubuntu 24.04'} for instance",
        )
    else:
        yield ok("python", machine.python)


def _c_library(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    if settings.accelerator != "cuda" or not machine.glibc:
        return
    limit = threshold("glibc_refused_from")
    if parts(machine.glibc) >= parts(limit):
        yield refusal(
            "glibc",
            machine.glibc,
            f"below {limit}",
            f"CUDA {cuda.version(settings.vllm_version)}'s headers declare rsqrt() in another way "
            "than this glibc, so nothing compiles: use Ubuntu 24.04 or Debian 13",
        )
    else:
        yield ok("glibc", machine.glibc)


def _kernel(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    kind = "WSL2's" if machine.is_wsl2 else "not WSL2's"
    if machine.is_wsl2 == settings.wsl2:
        yield ok("kernel", f"{machine.kernel}, {kind}")
    else:
        yield refusal(
            "kernel",
            f"{machine.kernel}, {kind}",
            f"one that fits wsl2 = {settings.wsl2}",
            f"set wsl2 = {machine.is_wsl2}",
        )


def _clock(machine: Machine) -> Iterator[Finding]:
    ahead = machine.clock_ahead_s
    found = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine"
    remedy = (
        "set it: under WSL2 `wsl --shutdown` in Windows does (the VM's clock stands still while "
        "Windows sleeps), elsewhere `timedatectl set-ntp true`"
    )
    if abs(ahead) > threshold("clock_refused_above_s"):
        yield refusal("clock", found, f"{threshold('clock_refused_above_s')} s at most", remedy)
    elif abs(ahead) > threshold("clock_warned_above_s"):
        yield warning("clock", found, f"{threshold('clock_warned_above_s')} s at most", remedy)
    else:
        yield ok("clock", "agrees with this machine's")
