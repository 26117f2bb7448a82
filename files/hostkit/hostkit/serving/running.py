"""What the server that runs is really made of, read from /proc: told what, loaded from where."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hostkit.generation import generations, resources
from hostkit.host import paths, units
from hostkit.host.process import read_json
from hostkit.release import installed
from hostkit.release.wheel import sha256
from hostkit.serving import server

# What decides how vLLM behaves; systemd and shells add more that does not.
_TELLING = re.compile(r"(VLLM|CUDA|NCCL|TORCH|PYTORCH|PYTHON|TRITON|HF|TQ|FLASHINFER|LD)_")
_DELETED = " (deleted)"
_ALWAYS = {"VLLM_API_KEY", "GENERATION_DIGEST"}


def process(number: int) -> dict[str, Any]:
    """The unit's main process, which is a server of this generation.

    `environment` lists what differs from what was meant, as [name, found or None, meant or None].
    A variable that nobody meant is named without its value.
    """
    pid = int(units.show("MainPID")["MainPID"] or 0)
    note = generations.note(number)
    raw = (units.PROC / str(pid) / "environ").read_bytes().decode("utf-8", "replace")
    found = dict(entry.split("=", 1) for entry in raw.split("\0") if "=" in entry)
    return {
        "pid": pid,
        "command": units.command_line(pid),
        "environment": differences(found, note.get("environment", {})),
    }


def differences(
    found: Mapping[str, str], meant: Mapping[str, str]
) -> list[tuple[str, str | None, str | None]]:
    """The variables that a process has otherwise than meant, and those that nobody meant."""
    other: list[tuple[str, str | None, str | None]] = [
        (name, found.get(name), text) for name, text in meant.items() if found.get(name) != text
    ]
    more = sorted(n for n in found if _TELLING.match(n) and n not in meant and n not in _ALWAYS)
    return [*other, *((name, None, None) for name in more)]


def edited(number: int) -> list[str]:
    """The files of a generation that are not as they were staged.

    The note says what they were; of a generation from before it did, nothing can be said.
    """
    stated: Mapping[str, str] = generations.note(number).get("files", {})
    folder = generations.folder(number)
    return [name for name, digest in stated.items() if _digest(folder / name) != digest]


def _digest(file: Path) -> str:
    return sha256(file) if file.is_file() else ""


def release(number: int) -> dict[str, Any]:
    """A generation's release: its manifest against what is installed, and what is loaded of it.

    Hashes vLLM's own Python files and every file that the server has mapped, which takes seconds
    for a CUDA build.
    """
    folder = (generations.folder(number) / "release").resolve()
    manifest = read_json(folder / "manifest.json")
    venv = folder / "venv"
    there, gone = loaded(venv)
    found = installed.altered(venv, lambda path: path in there or _is_vllms(path))
    altered = [e.path for e in found if manifest["misrecorded"].get(e.path) != e.digest]
    return {
        "name": folder.name,
        "damage": installed.damage(folder),
        "altered": sorted(altered),
        "gone": sorted(gone),
        "unlisted": sorted(there - {path for _, path, _ in installed.listed(venv)}),
        "loaded": len(there),
        "patches": {patch["name"]: patch["state"] for patch in manifest["patches"]},
        "installed_version": manifest["vllm"],
    }


def _is_vllms(path: str) -> bool:
    return path.startswith("vllm/") and path.endswith(".py")


def loaded(venv: Path) -> tuple[set[str], set[str]]:
    """What the unit's processes have mapped of a virtual environment, relative to site-packages.

    Second: what of it was replaced or removed on the disk since. Needs root.
    """
    prefix = f"{installed.site_packages(venv)}/"
    maps = (_maps(pid) for pid in units.processes_of())
    return mapped("\n".join(maps), prefix)


def mapped(maps: str, prefix: str) -> tuple[set[str], set[str]]:
    """The files below a folder in the text of /proc/<pid>/maps: those there, those deleted."""
    there: set[str] = set()
    gone: set[str] = set()
    for line in maps.splitlines():
        fields = line.split(None, 5)
        if len(fields) > 5 and fields[5].startswith(prefix):
            path = fields[5].removeprefix(prefix)
            (gone if path.endswith(_DELETED) else there).add(path.removesuffix(_DELETED))
    return there - gone, gone


def _maps(pid: int) -> str:
    try:
        return (units.PROC / str(pid) / "maps").read_text("utf-8", "replace")
    except OSError:
        return ""


def orphans() -> list[str]:
    """Processes of a server that no unit of ours knows any more: "number (command line)"."""
    return [
        f"{pid} ({command[:100]})" for pid, command in resources.servers() if not _has_unit(pid)
    ]


def _has_unit(pid: int) -> bool:
    return any(units.belongs_to_unit(pid, unit) for unit in (paths.UNIT, "vllm-"))


def metrics(names: Iterable[str]) -> list[str]:
    """The server's lines of these metrics, all their labels. Raises NotAnswering."""
    text = server.metrics(server.find())
    wanted = tuple(names)
    return [
        line for line in text.splitlines() if line.startswith(wanted) and "_bucket{" not in line
    ]


def version() -> str:
    """What the server says of itself at /version."""
    return server.version(server.find())
