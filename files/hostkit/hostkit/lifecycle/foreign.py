"""A vLLM on this host that is not ours: found, backed up, stopped, and put back."""

import json
import os
import pwd
import re
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hostkit.host import environment, paths, units
from hostkit.host.process import Failure, run, write_atomic

BACKUPS = paths.ROOT / "var/lib/vllm/adopted"
BY_HAND = paths.ROOT / "run/vllm-by-hand.env"
NOTE = "note.json"

_SERVES = re.compile(r"(^|[/ ])vllm serve( |$)|vllm\.entrypoints\.(openai\.)?api_server")
_UNIT = re.compile(r"/([^/]+\.service)$")
_OURS = re.compile(r"/vllm(-job-[^/]*|-watch)?\.service")


@dataclass(frozen=True)
class Found:
    """A server as it runs. `name` is what it is adopted by: its unit, or its process id."""

    name: str
    pid: int
    unit: str | None
    user: str
    command: tuple[str, ...]
    folder: str
    ports: tuple[int, ...]
    model: str | None

    def __str__(self) -> str:
        how = f"unit {self.unit}" if self.unit else "started by hand"
        ports = ", ".join(map(str, self.ports)) or "none yet"
        return (
            f"{self.name}: process {self.pid} of {self.user} ({how}), port {ports}, "
            f"model {self.model or 'unknown'}, {self.command[0]}"
        )


def find() -> list[Found]:
    """The servers that run here without being ours; needs root to see all of them."""
    serving = {pid for pid in units.pids() if _SERVES.search(units.command_line(pid))}
    found = []
    for pid in sorted(serving):
        groups = _read(pid, "cgroup").decode(errors="replace").splitlines()
        if any(_OURS.search(line) for line in groups) or _parent(pid) in serving:
            continue
        unit = next((match[1] for line in groups if (match := _UNIT.search(line))), None)
        # Whoever logs in runs below a service of his own, which does not start the server.
        unit = None if unit is None or unit.startswith(("user@", "ssh")) else unit
        words = [word.decode(errors="replace") for word in _read(pid, "cmdline").split(b"\0")[:-1]]
        found.append(
            Found(
                unit or str(pid),
                pid,
                unit,
                _user(pid),
                tuple(words),
                _link(pid, "cwd"),
                tuple(sorted(_ports(pid))),
                model_of(words),
            )
        )
    return found


def model_of(words: list[str]) -> str | None:
    """The model that a command line names, by flag or behind `serve`."""
    for index, word in enumerate(words):
        if word == "--config" and index + 1 < len(words):
            return _configured_model(Path(words[index + 1]))
        if word.startswith("--model="):
            return word.partition("=")[2]
        if word in ("--model", "serve") and index + 1 < len(words):
            following = words[index + 1]
            if not following.startswith("-"):
                return following
    return None


def _configured_model(file: Path) -> str | None:
    try:
        found = re.search(r"^model: *['\"]?([^'\"\n]+)", file.read_text("utf-8"), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return found[1].strip() if found else None


def named(name: str) -> Found:
    """The one of that name; Failure lists those that there are."""
    there = find()
    for each in there:
        if each.name == name:
            return each
    listed = "; ".join(map(str, there)) or "none runs here"
    raise Failure(f"no vLLM called {name} to adopt: {listed}")


def back_up(found: Found) -> Path:
    """Keep all that is needed to put it back; its environment may hold secrets: 0600, root's."""
    folder = BACKUPS / found.name
    (folder / "files").mkdir(parents=True, exist_ok=True)
    for each in (BACKUPS, folder, folder / "files"):
        each.chmod(0o700)
    files = _unit_files(found.unit) if found.unit else []
    for number, file in enumerate(files):
        shutil.copy2(file, folder / "files" / str(number))
    environ = _read(found.pid, "environ").decode(errors="surrogateescape").split("\0")
    note = {
        **asdict(found),
        "enabled": found.unit is not None
        and units.show("UnitFileState", unit=found.unit)["UnitFileState"] == "enabled",
        "files": files,
        "environ": [each for each in environ if "=" in each],
    }
    write_atomic(folder / NOTE, json.dumps(note) + "\n", 0o600)
    return folder


def stop(found: Found) -> None:
    """Stop it, and keep it from the next boot; its files stay as they are."""
    if found.unit:
        units.systemctl("disable", "--now", "--quiet", found.unit)
        return
    # Its process group too: engine and workers are its children.
    run(["kill", "-TERM", str(found.pid)], f"stop process {found.pid}")
    for _ in range(600):
        if not Path(f"/proc/{found.pid}").exists():
            return
        time.sleep(0.1)
    raise Failure(f"process {found.pid} does not end: kill it, then adopt again")


def put_back() -> list[str]:
    """Have everything run again that was adopted; what was done, a line each."""
    said = []
    for note in sorted(BACKUPS.glob(f"*/{NOTE}")):
        told: dict[str, Any] = json.loads(note.read_text())
        if told["unit"]:
            for number, file in enumerate(told["files"]):
                if not Path(file).exists():
                    Path(file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(note.parent / "files" / str(number), file)
            units.systemctl("daemon-reload")
            verb = ["enable", "--now", "--quiet"] if told["enabled"] else ["start"]
            units.systemctl(*verb, told["unit"])
            said.append(f"{told['unit']} runs again")
        else:
            _start_by_hand(told)
            # Without its arguments: a key may be among them.
            said.append(f"{told['command'][0]} runs again, as vllm-by-hand.service")
        shutil.rmtree(note.parent)
    return said


def _start_by_hand(told: dict[str, Any]) -> None:
    told_apart = (each.split("=", 1) for each in told["environ"])
    options = [
        *(f"--uid={told['user']}", f"--working-directory={told['folder']}"),
        environment.write(BY_HAND, dict(told_apart)),
    ]
    command = ["/usr/bin/systemd-run", "--quiet", "--unit=vllm-by-hand", *options, "--"]
    run([*command, *told["command"]], "start it again")


def _unit_files(unit: str) -> list[str]:
    shown = units.show("FragmentPath", "DropInPaths", unit=unit)
    return [path for text in shown.values() for path in text.split() if Path(path).is_file()]


def _ports(pid: int) -> set[int]:
    family = {pid, *(each for each in units.pids() if _parent(each) == pid)}
    rows = [
        row for name in ("tcp", "tcp6") for row in units.socket_table(units.PROC / "net" / name)
    ]
    listening = {int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == "0A"}
    return {port for port in listening if units.listeners(port) & family}


def _parent(pid: int) -> int:
    match = re.search(rb"^PPid:\s+(\d+)", _read(pid, "status"), re.MULTILINE)
    return int(match[1]) if match else 0


def _user(pid: int) -> str:
    uid = units.real_uid(pid)
    try:
        return pwd.getpwuid(uid).pw_name if uid is not None else "?"
    except KeyError:
        return str(uid)


def _read(pid: int, name: str) -> bytes:
    try:
        return (units.PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""


def _link(pid: int, name: str) -> str:
    try:
        return os.readlink(units.PROC / str(pid) / name)
    except OSError:
        return "/"
