"""Compiled wheels are kept on this machine, too: one host compiles, the next ones install."""

import hashlib
from pathlib import Path

from pyinfra import host, state
from pyinfra.api import FileDownloadCommand, FileUploadCommand, QuoteString, StringCommand

from tasks.shared.facts.files import FolderHashes
from tasks.shared.operations.common import Commands

KEPT = Path("builds")
"""Below it a folder for each release that was compiled: the wheel, and hostkit's note on it."""

_ON_HOST = "/opt/vllm/cache/built"
_NOTE = "built.json"


def give(name: str) -> Commands:
    """Upload a release's wheel when it is kept here and the host has none."""
    kept = _hashes(KEPT / name)
    if _NOTE not in kept:
        return
    there = host.get_fact(FolderHashes, path=f"{_ON_HOST}/{name}") if state.is_executing else {}
    if there == kept:
        return
    yield StringCommand("install -d -m 755", QuoteString(f"{_ON_HOST}/{name}"))
    # The note vouches for the wheel, so it goes last.
    for file in sorted(kept, key=lambda file: file == _NOTE):
        yield FileUploadCommand(str(KEPT / name / file), f"{_ON_HOST}/{name}/{file}")


def take(name: str) -> Commands:
    """Download a release's wheel when the host has compiled one and none is kept here."""
    there = host.get_fact(FolderHashes, path=f"{_ON_HOST}/{name}")
    if _NOTE not in there or _hashes(KEPT / name) == there:
        return
    (KEPT / name).mkdir(parents=True, exist_ok=True)
    for file in sorted(there, key=lambda file: file == _NOTE):
        yield FileDownloadCommand(f"{_ON_HOST}/{name}/{file}", str(KEPT / name / file))


def _hashes(folder: Path) -> dict[str, str]:
    """File name to sha256 for the files of a local folder."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
