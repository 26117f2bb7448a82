"""What a host is, has and runs, gathered in one round trip; machine.sh does the looking."""

import base64
import itertools
import re
import shlex
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyinfra.api import FactBase

from tasks.shared.facts.file_access import FileAccess

_SCRIPT = (Path(__file__).parent / "machine.sh").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Place:
    """Where a folder really lies, links resolved, and its file system's KiB (None: unknown)."""

    path: str
    size_kib: int | None = None
    free_kib: int | None = None


@dataclass(frozen=True)
class Process:
    """A process of the host."""

    pid: int
    arguments: tuple[str, ...]
    cgroup: str = ""

    @property
    def is_ours(self) -> bool:
        """Does it belong to one of this toolkit's units?"""
        return "/vllm.service" in self.cgroup or "/vllm-" in self.cgroup

    def __str__(self) -> str:
        return f"process {self.pid} ({' '.join(self.arguments)[:60]})"


@dataclass(frozen=True)
class Machine:
    """What was found, as the tools said it. Empty means: not there, or it could not be read."""

    pid1: str = ""
    arch: str = ""
    user: str = ""
    os: str = ""
    kernel: str = ""
    python: str = ""
    glibc: str = ""
    unit: str = ""
    clock_ahead_s: float = 0.0
    """How far the host's clock is ahead of the control machine's."""
    meminfo: str = ""
    mounts: str = ""
    packages: str = ""
    apt_sources: str = ""
    """Lines "<file>:<line>" with the archives that apt knows."""
    places: Mapping[str, Place] = field(default_factory=dict)
    smi: str = ""
    gpus: str = ""
    libcuda: str = ""
    nvcc: str = ""
    listeners: Mapping[int, tuple[Process, ...]] = field(default_factory=dict)
    """Each port asked for that is taken, and who holds it; nobody: the host does not show it."""
    engines: tuple[Process, ...] = ()
    wsl_conf: bytes | None = None
    windows: str = ""
    """Where drive C: is mounted."""
    windows_users: tuple[str, ...] = ()
    wslconfigs: Mapping[str, bytes] = field(default_factory=dict)
    """Windows user to the bytes of their .wslconfig."""
    wsl_version: bytes = b""
    wslpath: str = ""
    private: Mapping[str, FileAccess] = field(default_factory=dict)
    """Of the files that others should not read, those that are there."""

    @property
    def memory_bytes(self) -> int:
        """The machine's RAM as Linux counts it; 0 if unknown."""
        found = re.search(r"^MemTotal:\s*(\d+) kB", self.meminfo, re.MULTILINE)
        return int(found[1]) * 1024 if found else 0

    @property
    def is_wsl2(self) -> bool:
        """WSL2's kernel says so in its release: 6.6.87.2-microsoft-standard-WSL2."""
        return "microsoft" in self.kernel.lower()

    @property
    def has_systemd(self) -> bool:
        """Is systemd what runs the host?"""
        return self.pid1 == "systemd"

    @property
    def serves(self) -> bool:
        """Does the service's own unit run?"""
        return self.unit in ("active", "activating", "deactivating", "reloading")


class MachineFact(FactBase[Machine]):
    """What a host is, has and runs. `wsl2` asks for the Windows side, too."""

    def command(
        self,
        model: str,
        kv: str,
        ports: list[int],
        private: list[str],
        cuda_home: str,
        wsl2: bool,
    ) -> str:
        values = {
            "MODEL": model,
            "KV": kv,
            "PORTS": " ".join(map(str, ports)),
            "PRIVATE": " ".join(private),
            "CUDA_HOME": cuda_home,
            "WSL2": "yes" if wsl2 else "",
        }
        assignments = " ".join(f"{name}={shlex.quote(text)}" for name, text in values.items())
        return f"{assignments} sh -c {shlex.quote(_SCRIPT)}"

    @staticmethod
    def default() -> Machine:
        return Machine()

    def process(self, output: list[str]) -> Machine:
        return parse(output, asked_at=time.time())


def parse(lines: Iterable[str], asked_at: float) -> Machine:
    """Read the script's output; `asked_at` is the control machine's clock, in Unix seconds."""
    said: dict[str, str] = {}
    sent: dict[str, list[bytes]] = {}
    for line in lines:
        name, mark, value = _partition(line)
        if mark == "=":
            said[name] = value.strip()
        elif mark == ":":
            sent.setdefault(name, []).append(_decoded(value))

    def text(name: str) -> str:
        return sent.get(name, [b""])[0].decode("utf-8", errors="replace")

    places = dict(_place(each) for each in sent.get("place", []))
    wslconfigs = [each.partition(b"\n") for each in sent.get("wslconfig", [])]
    return Machine(
        **{
            name: said.get(name, "")
            for name in ("pid1", "arch", "user", "os", "kernel", "python", "glibc", "unit")
        },
        clock_ahead_s=float(said["now"]) - asked_at if said.get("now", "").isdecimal() else 0.0,
        meminfo=text("meminfo"),
        mounts=text("mounts"),
        packages=text("packages"),
        apt_sources=text("apt_sources"),
        places=places,
        smi=said.get("smi", ""),
        gpus=text("gpus"),
        libcuda=text("libcuda"),
        nvcc=text("nvcc"),
        listeners=_listeners(sent.get("listening", []), sent.get("listener", [])),
        engines=tuple(p for p in _processes(sent.get("vllm", [])) if _is_engine(p.arguments)),
        wsl_conf=sent["wsl_conf"][0] if "wsl_conf" in sent else None,
        windows=said.get("windows", ""),
        windows_users=tuple(u.decode(errors="replace") for u in sent.get("windows_user", [])),
        wslconfigs={user.decode(errors="replace"): content for user, _, content in wslconfigs},
        wsl_version=sent.get("wsl_version", [b""])[0],
        wslpath=text("wslpath").strip(),
        private=dict(_private(each) for each in sent.get("private", [])),
    )


def _partition(line: str) -> tuple[str, str, str]:
    for index, character in enumerate(line):
        if character in "=:":
            return line[:index], character, line[index + 1 :]
    return line, "", ""


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        return b""


def _place(sent: bytes) -> tuple[str, Place]:
    name, path, *numbers = sent.decode("utf-8", errors="replace").split("\n")
    kib = [int(word) for word in " ".join(numbers).split() if word.isdecimal()]
    return name, Place(path, *kib) if len(kib) == 2 else Place(path)


def _private(sent: bytes) -> tuple[str, FileAccess]:
    path, _, access = sent.decode("utf-8", errors="replace").partition("\n")
    return path, FileAccess.read(access)


def _listeners(ports: list[bytes], sent: list[bytes]) -> dict[int, tuple[Process, ...]]:
    by_port: dict[int, list[bytes]] = {int(port): [] for port in ports}
    for each in sent:
        port, _, process = each.partition(b"\n")
        by_port[int(port)].append(process)
    return {port: _processes(holders) for port, holders in by_port.items()}


def _processes(sent: list[bytes]) -> tuple[Process, ...]:
    found: dict[int, Process] = {}
    for each in sent:
        if each.count(b"\n") < 2:  # it ended while it was read
            continue
        cgroup, pid, command = each.decode("utf-8", errors="replace").split("\n", 2)
        words = [word for word in command.split("\0") if word]
        if pid.isdecimal() and words:
            found[int(pid)] = Process(int(pid), tuple(words), cgroup)
    return tuple(found[pid] for pid in sorted(found))


def _is_engine(arguments: tuple[str, ...]) -> bool:
    """A vLLM server or one of its workers, not a command that merely names it."""
    if arguments[0].startswith("VLLM::"):
        return True
    return any(
        (one.rsplit("/", 1)[-1] == "vllm" and two == "serve")
        or (one == "-m" and two.startswith("vllm.entrypoints"))
        for one, two in itertools.pairwise(arguments)
    )
