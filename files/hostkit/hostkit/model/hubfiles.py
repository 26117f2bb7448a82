"""Is each downloaded file what its repository says it is? Hugging Face's client compares sizes."""

import hashlib
from collections.abc import Mapping
from pathlib import Path


def differing(folder: Path, listed: Mapping[str, str]) -> list[str]:
    """The files of a folder whose content is another one than the repository lists.

    `listed` has a digest by relative path: "sha256:…" of what is kept in LFS, "git:…" of the rest.
    """
    there = {path: folder / path for path in listed}
    return [
        path
        for path, file in sorted(there.items())
        if file.is_file() and digest(file, listed[path].partition(":")[0]) != listed[path]
    ]


def digest(file: Path, kind: str) -> str:
    """A file's digest as a repository lists it. ValueError for another kind."""
    if kind == "sha256":
        found = hashlib.sha256()
    elif kind == "git":
        # As git names a file's content.
        found = hashlib.sha1(f"blob {file.stat().st_size}\0".encode(), usedforsecurity=False)
    else:
        raise ValueError(f"{file.name}: a digest of the kind {kind!r} is not known")
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            found.update(block)
    return f"{kind}:{found.hexdigest()}"
