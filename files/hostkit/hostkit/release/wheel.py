"""Wheels as files: the pinned requirement, the checked download, names, tags and metadata."""

import hashlib
import itertools
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostkit.host.process import Failure

_PIN = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;#\[]+)"
    r"(?P<hashes>(?:\s+--hash=sha256:[0-9a-f]{64})+)"
)


@dataclass(frozen=True)
class Pin:
    """One file of a distribution, named by version and content: one of these is its hash."""

    name: str
    version: str
    hashes: tuple[str, ...]

    @property
    def sha256(self) -> str:
        return self.hashes[0]

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


@dataclass(frozen=True)
class FileName:
    """What a wheel's file name says: `vllm-0.31.0-cp38-abi3-manylinux_2_28_x86_64.whl`."""

    name: str
    version: str
    tags: tuple[str, ...]


def parse_pin(text: str, *, several_hashes: bool = False) -> Pin:
    """Read a requirements file that holds exactly one pinned requirement, with one hash."""
    lines = [line.split("#")[0] for line in text.splitlines()]
    stated = " ".join(" ".join(lines).replace("\\", " ").split())
    match = _PIN.fullmatch(stated)
    hashes = tuple(re.findall(r"[0-9a-f]{64}", match["hashes"])) if match else ()
    if not match or (len(hashes) > 1 and not several_hashes):
        raise Failure(
            f"wheel.txt: {stated or 'empty'!r}:"
            " expected one requirement with one hash, name==version --hash=sha256:…"
        )
    return Pin(match["name"], match["version"], hashes)


def parse_filename(filename: str) -> FileName:
    """Split a wheel's file name; compressed tags are spelt out."""
    parts = filename.removesuffix(".whl").split("-")
    if not filename.endswith(".whl") or len(parts) not in (5, 6):
        raise Failure(f"{filename}: not a wheel's file name")
    tags = itertools.product(*(part.split(".") for part in parts[-3:]))
    return FileName(parts[0], parts[1], tuple("-".join(tag) for tag in tags))


def canonical(name: str) -> str:
    """A distribution's name in the one spelling that may be compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def sha256(path: Path) -> str:
    """Hash of a file's content, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def cached(
    pin: Pin, cache: Path, download: Callable[[Path], object], pattern: str = "*.whl"
) -> Path:
    """The pinned file out of `cache`, where it lies under its hash; else downloaded into it.

    The content is hashed on every call, so a damaged copy is fetched anew. `download` is given an
    empty folder to put the file into. Raises Failure when what it fetched is something else.
    """
    folder = cache / pin.sha256
    kept = sorted(folder.glob(pattern))
    if len(kept) == 1 and sha256(kept[0]) in pin.hashes:
        return kept[0]
    if kept:
        shutil.rmtree(folder, ignore_errors=True)
    cache.mkdir(parents=True, exist_ok=True)
    # A folder of its own: a mounted cache is shared by hosts that fetch the same at the same time.
    fresh = Path(tempfile.mkdtemp(prefix=f".{pin.sha256}.", dir=cache))
    fresh.chmod(0o755)
    try:
        download(fresh)
        fetched = sorted(fresh.glob(pattern))
        if len(fetched) != 1 or sha256(fetched[0]) not in pin.hashes:
            raise Failure(f"{pin}: the download is not the file whose sha256 is pinned")
        try:
            fresh.rename(folder)
        except OSError:
            # Another host was faster, with the same content.
            if not (folder / fetched[0].name).is_file():
                raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder / fetched[0].name


def dist_info(root: Path) -> Path:
    """The one .dist-info folder of an unpacked wheel or of a site-packages with one vllm."""
    found = sorted(root.glob("*.dist-info"))
    if len(found) != 1:
        raise Failure(f"{root.name}: {len(found)} .dist-info folders, expected one")
    return found[0]


def rewrite_metadata(text: str, name: str, version: str, drop: Iterable[str]) -> str:
    """METADATA with another name and version and without the requirements in `drop`.

    Raises Failure for a requirement to drop that is not there: a misspelt one would stay silently.
    """
    unseen = {canonical(each) for each in drop}
    dropped = frozenset(unseen)
    head, separator, body = text.partition("\n\n")
    lines = []
    for line in head.split("\n"):
        key, _, value = line.partition(":")
        if key == "Requires-Dist":
            required = canonical(re.match(r"\s*([\w.-]*)", value)[1])  # type: ignore[index]
            unseen.discard(required)
            if required in dropped:
                continue
        lines.append({"Name": f"Name: {name}", "Version": f"Version: {version}"}.get(key, line))
    if unseen:
        raise Failure(
            f"drop_requirements: {', '.join(sorted(unseen))}: the wheel does not require it"
        )
    return "\n".join(lines) + separator + body


def rewrite_tags(text: str, tags: Sequence[str]) -> str:
    """The WHEEL file with the given tags.

    vLLM's wheels are retagged by renaming alone, so their own WHEEL names another Python or
    platform than the file that was asked for.
    """
    kept = [line for line in text.splitlines() if line.strip() and not line.startswith("Tag:")]
    return "\n".join([*kept, *(f"Tag: {tag}" for tag in tags)]) + "\n"
