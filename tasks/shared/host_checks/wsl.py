"""systemd, and what WSL2 and Windows were told about this machine."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.shared import front_door
from tasks.shared.facts.machine import Machine
from tasks.shared.host_checks.findings import (
    Finding,
    is_below,
    ok,
    refusal,
    threshold,
    warning,
)
from tasks.shared.host_checks.gpus import is_blackwell
from tasks.shared.wsl import windows, wslconf

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

RESTART = "run `wsl --shutdown` in Windows, then this again"
TASK = "tasks/wsl.py"
GIB = 1024**3


def judge(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    """systemd as PID 1, wsl.conf, WSL's and its kernel's version, .wslconfig."""
    yield _systemd(machine, settings)
    if not settings.wsl2:
        return
    yield from _wsl_conf(machine)
    yield from _versions(machine)
    yield from _wslconfig(machine, settings)


def _systemd(machine: Machine, settings: "Settings") -> Finding:
    if machine.has_systemd:
        return ok("systemd", "is process 1")
    found = f"process 1 is {machine.pid1 or 'unknown'}"
    if not settings.wsl2:
        return refusal(
            "systemd", found, "systemd", "boot this machine with systemd; for WSL2 set wsl2 = True"
        )
    if _enables_systemd(machine):
        return refusal(
            "systemd",
            f"{found}, although /etc/wsl.conf asks for systemd: WSL has not been restarted since",
            "systemd",
            RESTART,
            TASK,
        )
    return refusal(
        "systemd",
        f"{found}; {_why_not(machine)}",
        "systemd",
        f"write systemd=true into the [boot] section of /etc/wsl.conf, then {RESTART}",
        TASK,
    )


def _text(machine: Machine) -> str:
    return wslconf.decode(machine.wsl_conf or b"").text


def _enables_systemd(machine: Machine) -> bool:
    return wslconf.is_true(wslconf.parse(_text(machine)).get("boot.systemd", ""))


def _why_not(machine: Machine) -> str:
    """What is wrong with wsl.conf, as exactly as can be said."""
    if machine.wsl_conf is None:
        return "there is no /etc/wsl.conf"
    values = wslconf.parse(_text(machine))
    if "boot.systemd" in values:
        return f"/etc/wsl.conf says systemd={values['boot.systemd']}"
    elsewhere = [name for name in values if name.endswith(".systemd")]
    if elsewhere:
        section = elsewhere[0].rpartition(".")[0]
        place = f"in section [{section}]" if section else "before any section"
        return f"/etc/wsl.conf has systemd= {place}"
    if "systemd" in _text(machine).lower():
        return "/etc/wsl.conf names systemd in a line that WSL does not understand"
    return "/etc/wsl.conf does not name systemd"


def _wsl_conf(machine: Machine) -> Iterator[Finding]:
    if machine.has_systemd and not _enables_systemd(machine):
        yield warning(
            "wsl.conf",
            f"systemd runs, but {_why_not(machine)}",
            "systemd=true in [boot]",
            "write it: the next start of WSL comes without systemd",
            TASK,
        )
    elif b"\r" in (machine.wsl_conf or b""):
        yield warning(
            "wsl.conf",
            "has Windows line ends",
            "line feeds only",
            "write it anew: not every WSL reads it so",
            TASK,
        )
    elif machine.has_systemd:
        yield ok("wsl.conf", "asks for systemd")


def _versions(machine: Machine) -> Iterator[Finding]:
    if not is_blackwell(machine):
        yield ok("WSL", f"kernel {machine.kernel}")
        return
    wsl = windows.wsl_version(machine.wsl_version)
    found = f"{wsl}, kernel {machine.kernel}" if wsl else f"kernel {machine.kernel}"
    update = "update WSL: run `wsl --update`, then `wsl --shutdown`, in Windows"
    lowest = threshold("wsl_warned_below")
    if is_below(machine.kernel, "wsl_kernel_refused_below"):
        floor = threshold("wsl_kernel_refused_below")
        yield refusal("WSL", found, f"kernel {floor} or newer for sm_120", update)
    elif (wsl and is_below(wsl, "wsl_warned_below")) or (
        not wsl and is_below(machine.kernel, "wsl_kernel_warned_below")
    ):
        yield warning(
            "WSL", found, f"{lowest} or newer: older ones fail on sm_120's CUDA graphs", update
        )
    else:
        yield ok("WSL", found)


def _wslconfig(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    if not machine.windows:
        yield warning(
            ".wslconfig",
            "drive C: is not mounted",
            "Windows' files under /mnt/c",
            "set enabled=true under [automount] in /etc/wsl.conf, or edit .wslconfig by hand",
        )
        return
    user = windows.user(machine, settings.windows_user)
    if user is None:
        yield warning(
            ".wslconfig",
            f"Windows has the users {', '.join(machine.windows_users) or '(none)'}",
            "the one who runs WSL",
            "set windows_user",
        )
        return
    content = machine.wslconfigs.get(user)
    decoded = wslconf.decode(content or b"")
    if decoded.encoding == "utf-16-be" or (decoded.encoding == "utf-16-le" and not decoded.mark):
        yield warning(
            ".wslconfig",
            f"is {decoded.encoding.upper()}{'' if decoded.mark else ' without a mark'}",
            "UTF-8",
            "save it as UTF-8 in Windows: WSL does not read it so",
        )
    values = wslconf.parse(decoded.text)
    yield from _memory(machine, settings, values)
    yield from _keep_alive(settings, values)
    yield from _network(settings, values)


def _memory(machine: Machine, settings: "Settings", values: dict[str, str]) -> Iterator[Finding]:
    asked = values.get("wsl2.memory", "")
    has_gib = machine.memory_bytes / GIB
    if asked and wslconf.size_bytes(asked) is None:
        yield warning(
            ".wslconfig memory",
            f"memory={asked}",
            "a size such as 24GB",
            f"correct it: WSL ignores it, the VM has {has_gib:.1f} GiB",
        )
        return
    size = wslconf.size_bytes(asked) if asked else None
    wanted = settings.wsl_memory_gib
    if wanted is not None and size != wanted * GIB:
        yield warning(
            ".wslconfig memory",
            f"memory={asked or 'not set'}, the VM has {has_gib:.1f} GiB",
            f"{wanted}GB",
            f"write it, then {RESTART}",
            TASK,
        )
    elif size is not None and abs(size / GIB - has_gib) > (
        threshold("vm_memory_tolerance") * size / GIB
    ):
        yield warning(
            ".wslconfig memory",
            f"memory={asked}, the VM has {has_gib:.1f} GiB",
            "the same",
            f"{RESTART}; if it stays so, Windows has no {asked} to give",
        )
    else:
        told = f"memory={asked}" if asked else "memory is not set: half of Windows'"
        yield ok(".wslconfig memory", f"{told}, the VM has {has_gib:.1f} GiB")


def _keep_alive(settings: "Settings", values: dict[str, str]) -> Iterator[Finding]:
    stops = [
        f"{key}={values.get(name, 'not set')}"
        for name, key in (
            ("general.instanceidletimeout", "instanceIdleTimeout"),
            ("wsl2.vmidletimeout", "vmIdleTimeout"),
        )
        if not values.get(name, "").startswith("-")
    ]
    if not stops:
        yield ok("keep-alive", "WSL does not stop when it is idle")
        return
    task = f"or the task at log-on that {windows.SCRIPT} makes"
    yield warning(
        "keep-alive",
        ", ".join(stops),
        "-1: services alone do not keep WSL from stopping",
        f"set wsl_keep_alive = True, {task}"
        if not settings.wsl_keep_alive
        else f"write them, then {RESTART}; {task}",
        TASK if settings.wsl_keep_alive else "",
    )


def _network(settings: "Settings", values: dict[str, str]) -> Iterator[Finding]:
    mode = values.get("wsl2.networkingmode", values.get("experimental.networkingmode", "nat"))
    wanted = settings.wsl_networking
    if wanted and mode.lower() != wanted:
        yield warning(
            "network", f"networkingMode={mode}", wanted, f"write it, then {RESTART}", TASK
        )
        return
    address, port = front_door.reached_at(settings)
    if address in front_door.LOOPBACK:
        yield ok("network", f"{mode}; the server listens on {address} only")
    else:
        yield ok("network", f"{mode}: {windows.SCRIPT} lets the LAN in at port {port}")
