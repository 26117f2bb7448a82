"""The host's processes and cgroups as this machine sees them; found by what they are, not by pid.

A pid in a file is wrong after a crash or a reboot; the root folder of a process is not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def supervisors(root: Path) -> list[int]:
    """Pids of systemd-nspawn that runs this root, and of what starts it again."""
    wanted = os.fsencode(f"--directory={root}")
    return [pid for pid in _pids() if wanted in _read(f"/proc/{pid}/cmdline").split(b"\0")]


def members(root: Path) -> list[int]:
    """Pids of all processes whose root folder is this one, of a crashed chroot as well."""
    try:
        own = os.stat(root)
    except FileNotFoundError:
        return []
    found = []
    for pid in _pids():
        with contextlib.suppress(OSError):
            if os.path.samestat(own, os.stat(f"/proc/{pid}/root/")):
                found.append(pid)
    return found


def init(root: Path) -> int | None:
    """Pid, on this machine, of the host's PID 1."""
    for pid in members(root):
        for line in _read(f"/proc/{pid}/status").splitlines():
            if line.startswith(b"NSpid:") and line.split()[1:][-1:] == [b"1"]:
                return pid
    return None


def power_off(root: Path, timeout: float) -> bool:
    """Ask the host's PID 1 to power off and wait; False when it has not ended in time."""
    pid = init(root)
    if pid is None:
        return not supervisors(root)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGRTMIN + 4)  # systemd(1): starts poweroff.target
    return wait(lambda: not supervisors(root) and not members(root), timeout)


def kill(root: Path) -> bool:
    """SIGKILL to everything at once; False when something is still there after a while.

    PID 1 goes first: with it the kernel kills every other process of the host in one go.
    """

    def gone() -> bool:
        first = init(root)
        for pid in (first,) if first else (*members(root), *supervisors(root)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not supervisors(root) and not members(root)

    return wait(gone, 20)


def wait(condition: Callable[[], bool], timeout: float) -> bool:
    """Whether the condition came true within `timeout` seconds."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def make_cgroups(name: str) -> list[Path]:
    """A group of its own in the hierarchies that systemd manages; [] where that is not possible.

    Without it every host's systemd would take the same group for its own, and stopping a unit of
    one host would kill the same unit of another.
    """
    made = []
    for parent in _systemd_hierarchies():
        with contextlib.suppress(OSError):
            group = parent / name
            group.mkdir(exist_ok=True)
            made.append(group)
    return made


def remove_cgroups(name: str) -> None:
    for parent in _systemd_hierarchies():
        for folder, _, _ in os.walk(parent / name, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def mounts_below(folder: Path) -> list[str]:
    """Mount points at or below the folder, innermost first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4].encode().decode("unicode_escape")
        if Path(point).is_relative_to(folder):
            found.append(point)
    return found[::-1]


def _systemd_hierarchies() -> Iterator[Path]:
    mounts = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split()[:3]
        if kind == "cgroup2":
            mounts["0"] = left.split()[4]
        elif kind == "cgroup" and "name=systemd" in options.split(","):
            mounts["name=systemd"] = left.split()[4]
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        point = mounts.get("0" if number == "0" else controllers)
        if point:
            yield Path(point) / path.lstrip("/")


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()]


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
