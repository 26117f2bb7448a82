"""Generations on the host: a release together with what it is told.

A start uses the one that `current` links to.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostkit.host import loopback, paths
from hostkit.host.process import Failure

NOTE = "generation.json"
UNIT_FILE = "vllm.service"
VERIFIED = "verified"

_SSD_TIER = re.compile(r'"?secondary_tiers"?:')

FILES = ("serve.yaml", "vllm.env", UNIT_FILE, NOTE)
_NOTED = {"digest", "release", "version", "served_model_name", "model_dir", "address", "port"}


def numbers() -> list[int]:
    """All complete generations, oldest first."""
    if not paths.GENERATIONS.is_dir():
        return []
    names = [int(entry.name) for entry in paths.GENERATIONS.iterdir() if entry.name.isdecimal()]
    return sorted(number for number in names if note_in(folder(number)) is not None)


def highest() -> int:
    """The highest number in use, damaged generations included; 0 for none."""
    if not paths.GENERATIONS.is_dir():
        return 0
    names = [entry.name for entry in paths.GENERATIONS.iterdir()]
    return max((int(name) for name in names if name.isdecimal()), default=0)


def folder(number: int) -> Path:
    return paths.GENERATIONS / str(number)


def note(number: int) -> dict[str, Any]:
    """What was written down about a generation: digest, release, address, port, model name, …"""
    found = note_in(folder(number))
    if found is None:
        raise ValueError(f"generation {number} is not there or damaged")
    return found


def note_in(place: Path) -> dict[str, Any] | None:
    """The note in a folder; None also for one that a power cut left empty or torn."""
    try:
        found = json.loads((place / NOTE).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.keys() >= _NOTED else None


def unit(number: int) -> str | None:
    """The text of the unit that runs this generation; None when it is gone."""
    try:
        return (folder(number) / UNIT_FILE).read_text()
    except FileNotFoundError:
        return None


def is_whole(number: int) -> bool:
    """Are a generation's own files and its release there? Its model is not looked at."""
    release = folder(number) / "release"
    return (
        all((folder(number) / name).is_file() for name in FILES)
        and (release / "manifest.json").is_file()
        and (release / "venv/bin/vllm").is_file()
    )


def reached_at(noted: Mapping[str, Any]) -> str:
    """Where the server of the generation with this note is reached from this host: host:port."""
    return loopback.reached_at(noted["address"], noted["port"])


def has_ssd_tier(number: int) -> bool:
    """Does its server write KV to the disk?"""
    try:
        return bool(_SSD_TIER.search((folder(number) / "serve.yaml").read_text("utf-8", "replace")))
    except OSError:
        return False


def is_verified(number: int) -> bool:
    """Has a server of this generation answered a completion?"""
    return (folder(number) / VERIFIED).exists()


def mark_verified(number: int) -> None:
    """From now on this generation is one to go back to."""
    (folder(number) / VERIFIED).touch()
    _sync(folder(number))


def linked(link: Path) -> int | None:
    """The generation that `current` or `previous` names; None when it names none that is whole."""
    if not link.is_symlink():
        return None
    target = Path(os.path.normpath(link.parent / os.readlink(link)))
    if target.parent != paths.GENERATIONS or not target.name.isdecimal():
        return None
    return int(target.name) if note_in(target) is not None else None


def switch(number: int) -> None:
    """Make a generation the current one; the one before, if it ever served, becomes `previous`."""
    before = linked(paths.CURRENT)
    if before == number:
        return
    if before is not None and is_verified(before):
        _point(paths.PREVIOUS, before)
    _point(paths.CURRENT, number)


def restore(number: int, previous: int | None = None) -> None:
    """Undo a switch: `number` is current again, and `previous` is what it was before."""
    _point(paths.CURRENT, number)
    if previous is not None:
        _point(paths.PREVIOUS, previous)


def to_go_back_to(number: int) -> int | None:
    """The generation that serves on when `number` does not: the last one that did serve."""
    for link in (paths.CURRENT, paths.PREVIOUS):
        found = linked(link)
        if found is not None and found != number and is_verified(found):
            return found
    return None


def _point(link: Path, number: int) -> None:
    if link.exists() and not link.is_symlink():
        # Somebody's own, or a copy that was restored without its links: not ours to remove.
        raise Failure(f"{link} is no link, expected one to a generation: move it away")
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(f"generations/{number}")
    os.replace(fresh, link)
    _sync(link.parent)


def _sync(directory: Path) -> None:
    """A name in this folder outlives a power cut from now on."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
