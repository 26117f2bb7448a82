"""The texts that help somebody else to find a fault, as one tar archive on standard output.

Each is bounded, and so is their sum: what does not fit is named in `left-out.txt`. Secrets are cut
out here already; the control machine does so again, and hides names and addresses.
"""

import io
import pwd
import socket
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from hostkit.generation import generations, start
from hostkit.health import evidence, failures
from hostkit.host import gpus, paths, units
from hostkit.serving import running

EACH_BYTES = 1 << 20
ALL_BYTES = 24 << 20
_LINES = 4000
_FIRST_LOGIN_UID = 1000
_NOBODY_UID = 65534

Source = Callable[[], str]


def names() -> dict[str, list[str]]:
    """What this host and its people are called. No name service is asked: it may be down."""
    people = [
        user.pw_name for user in pwd.getpwall() if _FIRST_LOGIN_UID <= user.pw_uid < _NOBODY_UID
    ]
    called = {socket.gethostname(), *_text("/etc/hostname").split()}
    for line in _text("/etc/hosts").splitlines():
        _address, *also = line.partition("#")[0].split() or [""]
        if called & {*also}:
            called |= {*also}
    return {"hosts": sorted(called), "users": people}


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""


def write(stream: IO[bytes]) -> None:
    """Write the archive, one text after another."""
    secrets = evidence.known_secrets()
    left, skipped = ALL_BYTES, []
    with tarfile.open(fileobj=stream, mode="w|gz") as archive:
        for name, source in sources():
            text = evidence.redacted(evidence.text(source), secrets)
            content = text.encode("utf-8", "replace")[-EACH_BYTES:]
            if len(content) > left:
                skipped.append(f"{name}: {len(content)} bytes")
                continue
            left -= len(content)
            _add(archive, name, content)
        if skipped:
            _add(archive, "left-out.txt", "\n".join([*skipped, ""]).encode())


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o600
    archive.addfile(member, io.BytesIO(content))


def sources() -> Iterator[tuple[str, Source]]:
    """Name and source of each text, those that matter most first."""
    run = evidence.output
    yield "units/show.txt", lambda: run("systemctl", "show", paths.UNIT)
    for unit in paths.UNITS:
        yield f"units/{unit}", lambda unit=unit: run("systemctl", "cat", unit)  # type: ignore[misc]
        yield f"journal/{unit}.log", lambda unit=unit: _journal(unit)  # type: ignore[misc]
    for number in _numbers():
        for file in sorted(generations.folder(number).glob("*")):
            if file.is_file():
                yield f"generations/{number}/{file.name}", file.read_text
        manifest = generations.folder(number) / "release/manifest.json"
        yield f"generations/{number}/release-manifest.json", manifest.read_text
    yield "metrics.txt", lambda: "\n".join(running.metrics([""])) + "\n"
    yield "nvidia-smi.txt", gpus.smi
    yield "kernel.log", lambda: "\n".join(evidence.kernel_lines()) + "\n"
    yield "memory.txt", lambda: Path("/proc/meminfo").read_text() + run("df", "-h")
    yield "mounts.txt", lambda: Path("/proc/mounts").read_text()
    yield "processes.txt", lambda: run("ps", "-eo", "pid,ppid,user,etimes,rss,args")
    for folder, pattern in ((paths.ETC, "*.json"), (paths.HEALTH, "*.*"), (paths.RUN, "*.json")):
        for file in sorted(folder.glob(pattern)):
            if file.is_file():
                yield f"{folder.name}/{file.name}", file.read_text
    for report in reversed(failures.all_kept()):
        for file in sorted(Path(report["folder"]).iterdir()):
            yield f"failures/{report['number']}/{file.name}", file.read_text


def _journal(unit: str) -> str:
    lines = units.journalctl(f"--lines={_LINES}", f"--unit={unit}", "--output=short-iso")
    return "\n".join(lines) + "\n"


def _numbers() -> list[int]:
    """The generations that are in use, or were until lately."""
    linked = [generations.linked(link) for link in (paths.CURRENT, paths.PREVIOUS)]
    pid = int(units.show("MainPID")["MainPID"] or 0)
    return sorted({n for n in [*linked, start.running_generation(pid), generations.highest()] if n})
