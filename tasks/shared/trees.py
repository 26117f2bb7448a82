"""Folders of text files as data: packed for one upload, compared, shown as a diff."""

import base64
import hashlib
import io
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


Tree = Mapping[str, str | Link]
"""Relative path to a file's text, or to where a link points."""


def read(folder: Path, pattern: str = "**/*.py") -> dict[str, str]:
    """The text files of a local folder that match."""
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.glob(pattern))
        if path.is_file()
    }


@cache
def hostkit() -> Tree:
    """The program on the host, as it is installed."""
    return read(Path("files/hostkit"))


def digest(tree: Tree) -> str:
    """12 hex digits that tell one tree from another."""
    content = "".join(f"{path}\0{_shown(entry)}\0" for path, entry in sorted(tree.items()))
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def pack(tree: Tree) -> str:
    """The tree as a base64 text of a tar.gz, owned by root: `base64 -d | tar -xzp`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, entry in sorted(tree.items()):
            member = tarfile.TarInfo(path)
            member.mtime = time.time()
            if isinstance(entry, Link):
                member.type, member.linkname = tarfile.SYMTYPE, entry.target
                archive.addfile(member)
            else:
                content = entry.encode()
                member.mode, member.size = 0o644, len(content)
                archive.addfile(member, io.BytesIO(content))
    return base64.b64encode(buffer.getvalue()).decode()


def unpack(packed: str) -> dict[str, str | Link]:
    """The reverse of `pack`, also of what a host's own tar made."""
    tree: dict[str, str | Link] = {}
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed)), mode="r:gz") as archive:
        for member in archive:
            path = member.name.removeprefix("./")
            if member.issym():
                tree[path] = Link(member.linkname)
            elif member.isfile():
                file = archive.extractfile(member)
                tree[path] = (file.read() if file else b"").decode(errors="replace")
    return tree


Difference = tuple[str, list[str], list[str]]
"""A path, its old lines and its new ones."""


def differences(before: Tree, after: Tree) -> Iterator[Difference]:
    """For every path that differs: the path, its old lines and its new ones."""
    for path in sorted(before.keys() | after.keys()):
        old, new = _shown(before.get(path)), _shown(after.get(path))
        if old != new:
            yield path, old.splitlines(keepends=True), new.splitlines(keepends=True)


def _shown(entry: str | Link | None) -> str:
    if entry is None:
        return ""
    return f"-> {entry.target}\n" if isinstance(entry, Link) else entry
