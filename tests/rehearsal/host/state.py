"""What is remembered of each rehearsal host: `.rehearsal/NAME/state.json` below the repository."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from .errors import RehearsalError

REPOSITORY = Path(__file__).resolve().parents[3]
HOSTS = REPOSITORY / ".rehearsal"
DEFAULT_NAME = "rehearsal"


@dataclass(frozen=True)
class Host:
    """A rehearsal host. `api_port` is for the server deployed to it, the others for its metrics.

    All of them were free here when they were chosen.
    """

    name: str
    ssh_port: int
    api_port: int
    metrics_port: int
    exporter_port: int
    ssh_hostname: str = "127.0.0.1"
    private_network: bool = False
    find_links: tuple[str, ...] | None = None
    """Folders with packages that the control machine's pip knows of; asked once, it takes long."""
    pid: int = 0
    """The systemd-nspawn process, 0 when not booted; informational, /proc has the last word."""

    @property
    def folder(self) -> Path:
        return folder_of(self.name)

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def key(self) -> Path:
        return self.folder / "key"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def console(self) -> Path:
        return self.folder / "console.log"

    def ssh_command(self, *words: str) -> list[str]:
        """The ssh command line that reaches this host with its own key and host key only."""
        return [
            "ssh",
            "-F/dev/null",
            f"-i{self.key}",
            f"-p{self.ssh_port}",
            f"-oUserKnownHostsFile={self.known_hosts}",
            "-oGlobalKnownHostsFile=/dev/null",
            "-oStrictHostKeyChecking=yes",
            "-oIdentitiesOnly=yes",
            "-oIdentityAgent=none",
            "-oBatchMode=yes",
            "-oConnectTimeout=5",
            "-oConnectionAttempts=3",
            "-oLogLevel=ERROR",
            f"root@{self.ssh_hostname}",
            *words,
        ]


def checked_name(name: str) -> str:
    """The name itself, or RehearsalError: it becomes a folder, a host name and a cgroup."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name):
        raise RehearsalError(
            f"host name {name!r}: expected a lower-case letter, then at most 30 of a-z, 0-9 and -"
        )
    return name


def folder_of(name: str) -> Path:
    return HOSTS / checked_name(name)


def tag_of(name: str) -> str:
    """Eight hex digits that tell this clone's host from one of the same name elsewhere."""
    return hashlib.sha256(os.fsencode(folder_of(name))).hexdigest()[:8]


def names() -> list[str]:
    """Names of all hosts of this clone, half-made ones too."""
    if not HOSTS.is_dir():
        return []
    return sorted(p.name for p in HOSTS.iterdir() if p.is_dir() and not p.name.startswith("."))


def load(name: str) -> Host:
    """The host of that name; RehearsalError when there is none or it was never finished."""
    path = folder_of(name) / "state.json"
    try:
        known = {field.name for field in fields(Host)}
        stored = json.loads(path.read_text())
        return Host(**{key: value for key, value in stored.items() if key in known})
    except (OSError, ValueError, TypeError, AttributeError) as error:
        gone = isinstance(error, FileNotFoundError)
        broken = "" if gone else f" ({type(error).__name__} on {path})"
        raise RehearsalError(
            f"rehearsal host {name}: not there{broken}; "
            f"make it with: python -m tests.rehearsal up --name {name}"
        ) from error


def save(host: Host) -> Host:
    """Write the state atomically; the paths are in it for readers that are not this module."""
    paths = {key: str(getattr(host, key)) for key in ("root", "key", "known_hosts", "console")}
    path = host.folder / "state.json"
    path.with_suffix(".new").write_text(json.dumps(asdict(host) | paths, indent=2) + "\n")
    give_to_caller(path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)
    return host


def give_to_caller(*paths: Path) -> None:
    """Under sudo, let who called sudo own these: pyinfra and pytest run without root."""
    if "SUDO_UID" in os.environ and os.geteuid() == 0:
        for path in paths:
            os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"]))


def make_folder(folder: Path) -> Path:
    """The folder, made if absent, as are those above it: the caller's own, under sudo as well."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        give_to_caller(folder)
    return folder


def pick_ports(seed: str, count: int, taken: set[int], is_free: Callable[[int], bool]) -> list[int]:
    """`count` free ports, found by walking up from a place that depends on `seed` alone.

    They lie below 32768, where the kernel starts to hand out ports to clients, so a port stays
    free while its host is down.
    """
    first, size = 20000, 12000
    start = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big") % size
    found: list[int] = []
    for step in range(size):
        port = first + (start + step) % size
        if port not in taken and is_free(port):
            found.append(port)
            if len(found) == count:
                return found
    raise RehearsalError(f"no {count} free ports between {first} and {first + size - 1}")


def port_is_free(port: int) -> bool:
    """Whether nothing on this machine, on any address, listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder, made if absent, against every other process; ends with this process.

    Whoever had it before may have removed it: then the lock is on a folder that no longer exists.
    """
    while True:
        try:
            handle = os.open(make_folder(folder), os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_still(folder, handle):
                yield
                return
        finally:
            os.close(handle)


def _is_still(folder: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(folder))
    except FileNotFoundError:
        return False
