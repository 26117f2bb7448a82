"""What systemd, the journal and /proc say about the service."""

import contextlib
import os
import re
from pathlib import Path

from hostkit.host import process
from hostkit.host.paths import ROOT, UNIT, UNIT_FILE

PROC = Path("/proc")
BOOTED = ROOT / "run/systemd/system"
"""There on every host that systemd runs, see sd_booted(3)."""
_LISTEN = "0A"


def show(*properties: str, unit: str = UNIT) -> dict[str, str]:
    """Properties of a unit as `ask` has them; empty texts where systemd does not answer.

    For those who have to come to an end all the same, and take nothing for a stopped server by it.
    """
    try:
        return ask(*properties, unit=unit)
    except process.Failure:
        return dict.fromkeys(properties, "")


def ask(*properties: str, unit: str = UNIT) -> dict[str, str]:
    """Properties of a unit as `systemctl show` gives them, times as @seconds since 1970.

    Failure when systemd does not answer: nothing is known then, least of all that nothing runs.
    Empty texts where it is not what runs this host: nothing of ours can run there.
    """
    if not BOOTED.is_dir():
        return dict.fromkeys(properties, "")
    command = [
        "systemctl",
        "show",
        unit,
        "--timestamp=unix",
        *(f"--property={name}" for name in properties),
    ]
    ended = process.attempt(command, "systemctl show")
    if ended.status:
        raise process.Failure(f"systemd does not answer: {ended.reason}")
    found = dict(line.split("=", 1) for line in ended.output.splitlines() if "=" in line)
    return {name: found.get(name, "") for name in properties}


def systemctl(*arguments: str) -> None:
    """Run systemctl; Failure with its message when it fails."""
    process.run(["systemctl", *arguments], f"systemctl {' '.join(arguments)}")


def install(text: str) -> None:
    """Make this the unit that systemd works with."""
    if not UNIT_FILE.is_file() or UNIT_FILE.read_text(errors="replace") != text:
        process.write_atomic(UNIT_FILE, text)
    systemctl("daemon-reload")
    # One that is not enabled is forgotten when it stops, and its count of starts with it.
    systemctl("enable", "--quiet", UNIT)


def complaint() -> str:
    """Why systemd could not make the last start of the service, in its own words."""
    invocation = show("InvocationID")["InvocationID"]
    # Said by systemd itself, or by the process that it had forked for it.
    matches = [f"INVOCATION_ID={invocation}", "+", f"_SYSTEMD_INVOCATION_ID={invocation}"]
    lines = journalctl("--lines=40", *matches)
    vague = ("Failed to start", "Failed to run", "Failed with result")
    telling = [line for line in lines if "Failed" in line and not any(v in line for v in vague)]
    return (telling or lines or ["systemd gave no reason"])[-1]


def journal(invocation: str, lines: int = 4000) -> list[str]:
    """The last lines that one invocation of the service wrote."""
    return journalctl(f"--lines={lines}", f"_SYSTEMD_INVOCATION_ID={invocation}")


def journalctl(*arguments: str) -> list[str]:
    """Lines of the journal, made valid UTF-8; none where none matches."""
    command = ["journalctl", "--no-pager", "--output=cat", *arguments]
    return process.attempt(command, "journalctl").output.splitlines()


def sync_journal() -> None:
    """Wait until all that was written so far can be read; without a journal nothing can."""
    with contextlib.suppress(process.Failure):
        _sync_journal()


def require_journal() -> None:
    """Failure when the journal does not work: a start is watched by what is written there."""
    try:
        _sync_journal()
    except process.Failure as failure:
        raise process.Failure(f"{failure}: systemctl start systemd-journald") from failure


def _sync_journal() -> None:
    process.run(["journalctl", "--sync"], "journalctl --sync", timeout_s=60)


def jobs(unit: str = UNIT) -> list[str]:
    """What systemd is about to do with a unit: the types of its jobs, "stop" for example."""
    rows = process.run(["systemctl", "list-jobs", "--no-legend", unit], "systemctl list-jobs")
    return [fields[2] for fields in map(str.split, rows.splitlines()) if unit in fields[:2]]


def starts(within_s: float) -> int:
    """How often the service was started in the last so many seconds, by whomever."""
    since = f"--since=-{within_s:.0f}s"
    lines = journalctl(since, f"--unit={UNIT}", "--grep=^hostkit: generation ")
    return sum("hostkit: generation " in line for line in lines)


def limits(text: str) -> tuple[int, int] | None:
    """Burst and interval in seconds of the start limit that a unit's text sets; None without."""
    found = [re.search(rf"^StartLimit{key}=(\d+)$", text, re.M) for key in ("Burst", "IntervalSec")]
    burst, interval = (int(match[1]) if match else 0 for match in found)
    return (burst, interval) if burst and interval else None


def processes_of(unit: str = UNIT) -> set[int]:
    """The processes in the unit's control group."""
    return {pid for pid in pids() if belongs_to_unit(pid, unit)}


def belongs_to_unit(pid: int, unit: str = UNIT) -> bool:
    """Is this process in the unit's control group?"""
    try:
        lines = (PROC / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return False
    return any(f"/{unit}" in line.rsplit(":", 1)[-1] for line in lines)


def listeners(port: int) -> set[int]:
    """The processes that listen on a TCP port, on any address. Needs root to see all of them."""
    inodes = {fields[9] for fields in _listening(port)}
    wanted = {f"socket:[{inode}]" for inode in inodes}
    return {pid for pid in pids() if wanted & _open_files(pid)} if wanted else set()


def ports(unit: str) -> list[int]:
    """The TCP ports that processes of a unit listen on; none for a unit that does not run."""
    own: set[str] = set().union(*(_open_files(pid) for pid in processes_of(unit)))
    return sorted({_port(row) for row in _all_listening() if f"socket:[{row[9]}]" in own})


def listener_uids(port: int) -> set[int]:
    """The users who listen on a TCP port, on any address; everybody may ask this."""
    return {int(fields[7]) for fields in _listening(port)}


def real_uid(pid: int) -> int | None:
    """The real user id of a process; None when it is gone."""
    try:
        status = (PROC / str(pid) / "status").read_text("utf-8", "replace")
    except OSError:
        return None
    match = re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)
    return int(match[1]) if match else None


def command_line(pid: int) -> str:
    """A process's command line; empty when it is gone."""
    try:
        raw = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return raw.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", errors="replace")


def owner(inode: str) -> int:
    """A process that has this socket open; 0 when none is found."""
    wanted = f"socket:[{inode}]"
    return next((pid for pid in pids() if wanted in _open_files(pid)), 0)


def _listening(port: int) -> list[list[str]]:
    """The rows of the kernel's tables for sockets that listen on this port."""
    return [row for row in _all_listening() if _port(row) == port]


def _all_listening() -> list[list[str]]:
    tables = (PROC / "net" / name for name in ("tcp", "tcp6"))
    return [row for table in tables for row in socket_table(table) if row[3] == _LISTEN]


def _port(row: list[str]) -> int:
    return int(row[1].rsplit(":", 1)[1], 16)


def socket_table(path: Path) -> list[list[str]]:
    """The rows of a table below /proc/net, split into their fields."""
    try:
        return [line.split() for line in path.read_text().splitlines()[1:]]
    except OSError:
        return []


def pids() -> list[int]:
    """All processes."""
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]


def _open_files(pid: int) -> set[str]:
    folder = PROC / str(pid) / "fd"
    found = set()
    try:
        for entry in folder.iterdir():
            try:
                found.add(os.readlink(entry))
            except OSError:
                continue
    except OSError:
        return set()
    return found
