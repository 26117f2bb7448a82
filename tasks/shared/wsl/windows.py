"""The Windows side of a WSL2 machine: whose .wslconfig, what belongs into it, WSL's version."""

import re
from typing import TYPE_CHECKING

from tasks.shared.facts.machine import Machine
from tasks.shared.wsl import wslconf

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

SCRIPT = "/etc/vllm/windows.ps1"
"""What Windows itself has to be told, for an operator to run there."""

RESTART_NEEDED = (
    "what changes for WSL holds once it has been restarted: run `wsl --shutdown` in Windows when "
    "nothing serves, since it stops every distribution"
)
NEXT_STEP = (
    "systemd does not run yet, and nothing else can be done before: run `wsl --shutdown` in "
    "Windows, open this distribution again, then run this again"
)


def user(machine: Machine, chosen: str | None) -> str | None:
    """The Windows user whose .wslconfig counts; None when that cannot be told."""
    if chosen is not None:
        return chosen if chosen in machine.windows_users else None
    if len(machine.wslconfigs) == 1:
        return next(iter(machine.wslconfigs))
    return machine.windows_users[0] if len(machine.windows_users) == 1 else None


def wslconfig(settings: "Settings") -> dict[str, dict[str, str]]:
    """What the settings ask of .wslconfig."""
    vm: dict[str, str] = {}
    if settings.wsl_memory_gib is not None:
        vm["memory"] = f"{settings.wsl_memory_gib}GB"
    if settings.wsl_swap_gib is not None:
        vm["swap"] = f"{settings.wsl_swap_gib}GB" if settings.wsl_swap_gib else "0"
    if settings.wsl_networking is not None:
        vm["networkingMode"] = settings.wsl_networking
    general = {}
    if settings.wsl_keep_alive:
        vm["vmIdleTimeout"] = "-1"
        general["instanceIdleTimeout"] = "-1"
    return {name: values for name, values in (("wsl2", vm), ("general", general)) if values}


def wsl_version(output: bytes) -> str:
    """The version that `wsl.exe --version` names first, in whichever language; empty if none."""
    for line in wslconf.decode(output).text.split("\n"):
        if found := re.search(r"\d+\.\d+\.\d+(?:\.\d+)?", line):
            return found[0]
    return ""


def distribution(machine: Machine) -> str:
    r"""This distribution's name in Windows, out of \\wsl.localhost\NAME\; empty if unknown."""
    found = re.fullmatch(r"\\\\wsl(?:\.localhost|\$)\\([\w.-]+)\\?", machine.wslpath)
    return found[1] if found else ""
