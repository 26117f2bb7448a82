"""The patches of a release: a version's own series, and those that are pinned by URL.

files/patches/vllm-<version>/series.toml lists the series. A pinned patch is the commit of a pull
request; the settings name it, and files/patches/pinned/ keeps what was fetched once.
"""

import hashlib
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import requests
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from tasks.shared.network import AS_IN_ENVIRONMENT, Network

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

PATCHES = Path("files/patches")
PINNED = PATCHES / "pinned"
FETCH_TIMEOUT_S = 30

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Version = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]
_PYTHON = re.compile(r"vllm/(?:[\w-]+/)*[\w-]+\.py")


class FileHashes(BaseModel):
    """sha256 of one file before and after a patch: the proof that it was applied.

    `before` is None for a file that the patch creates, `after` for one that it removes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    before: Sha256 | None = None
    after: Sha256 | None = None


class Patch(BaseModel):
    """One patch of a release."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^\d{4}-[a-z0-9-]+\.patch$")
    title: Text
    upstream: Text
    """Where upstream has it or argues about it; "none: …" for one of our own."""

    why: Text
    until: Version | Literal[""]
    """The first version of vLLM that does not need it any more; empty while there is none."""

    files: dict[str, FileHashes] = Field(min_length=1)

    @property
    def compiled(self) -> list[str]:
        """The files that only a build from source brings into force."""
        return [path for path in self.files if not _PYTHON.fullmatch(path)]


class Series(BaseModel):
    """series.toml as a whole."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    patch: list[Patch] = []


class PinnedPatch(BaseModel):
    """A patch by URL, as the settings name it. `make pin-patch` writes such an entry."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    url: Annotated[str, StringConstraints(pattern=r"^https://\S+/commit/[0-9a-f]{40}\.patch$")]
    vllm_version: Version
    why: Text
    hunks_sha256: Sha256
    """Of the patch without what a server may word differently: see `hunks_sha256()`."""

    files: dict[str, FileHashes] = Field(min_length=1)
    replaces: list[str] = []
    """Patches of the series, by name, that are left out for it."""

    @property
    def commit(self) -> str:
        return self.url.rpartition("/")[2].removesuffix(".patch")

    @property
    def file(self) -> Path:
        """Where the fetched patch is kept."""
        return PINNED / f"{self.commit}.patch"

    def as_patch(self, position: int) -> Patch:
        """The same as one more entry of a series."""
        return Patch(
            name=f"{9000 + position}-{self.commit[:12]}.patch",
            title=f"pinned commit {self.commit[:12]}",
            upstream=self.url,
            why=self.why,
            until="",
            files=self.files,
        )


def has_series(version: str) -> bool:
    return (PATCHES / f"vllm-{version}" / "series.toml").is_file()


def series(version: str) -> list[Patch]:
    """The patches for a version of vLLM, in order; ValueError when list and folder disagree."""
    folder = PATCHES / f"vllm-{version}"
    listing = folder / "series.toml"
    if not listing.is_file():
        raise ValueError(f"vLLM {version} has no patch series: make new-version V={version}")
    try:
        patches = Series.model_validate(tomllib.loads(listing.read_text(encoding="utf-8"))).patch
    except ValueError as error:
        raise ValueError(f"{listing}: {error}") from None
    listed = [patch.name for patch in patches]
    present = {file.name for file in folder.glob("*.patch")}
    if listed != sorted(set(listed)) or set(listed) != present:
        raise ValueError(
            f"{listing} lists {listed}, the folder holds {sorted(present)}: "
            "every patch must be listed once, in order"
        )
    for patch in patches:
        if patch.until and numbers(version) >= numbers(patch.until):
            raise ValueError(
                f"{listing}: {patch.name} is not needed from {patch.until} on: remove it"
            )
    return patches


def wanted(settings: "Settings") -> list[Patch]:
    """All patches of the release that these settings ask for, in order."""
    own = _series_of(settings)
    return own + [entry.as_patch(n) for n, entry in enumerate(settings.pinned_patches)]


def _series_of(settings: "Settings") -> list[Patch]:
    """The version's series without what a pinned patch replaces."""
    own = series(settings.vllm_version)
    replaced = {name for entry in settings.pinned_patches for name in entry.replaces}
    unknown = sorted(replaced - {patch.name for patch in own})
    if unknown:
        raise ValueError(
            f"pinned_patches: replaces names {unknown[0]}, the series of vLLM "
            f"{settings.vllm_version} has {', '.join(patch.name for patch in own)}"
        )
    return [patch for patch in own if patch.name not in replaced]


def check(settings: "Settings") -> None:
    """Raise ValueError when the settings ask for patches or a route that cannot be."""
    texts(settings)
    _check_fit(settings)
    route(settings.build_route, wanted(settings))


def _check_fit(settings: "Settings") -> None:
    """A pinned patch that changes a file of the series has to be pinned on top of it."""
    left = {path: (p.name, h.after) for p in _series_of(settings) for path, h in p.files.items()}
    for entry in settings.pinned_patches:
        for path, hashes in entry.files.items():
            name, after = left.get(path, ("", hashes.before))
            if hashes.before != after:
                raise ValueError(
                    f"pinned_patches: {entry.commit[:12]} and {name} of the series both change "
                    f"{path}: say replaces = ['{name}'], or make pin-patch again on top of it"
                )
            left[path] = (entry.commit[:12], hashes.after)


def texts(settings: "Settings") -> dict[str, str]:
    """The text of every wanted patch by its name. Pinned ones are fetched when they are not here.

    Raises ValueError when one cannot be had.
    """
    folder = PATCHES / f"vllm-{settings.vllm_version}"
    found = {
        patch.name: (folder / patch.name).read_text(encoding="utf-8")
        for patch in _series_of(settings)
    }
    for number, entry in enumerate(settings.pinned_patches):
        if entry.vllm_version != settings.vllm_version:
            raise ValueError(
                f"pinned_patches: {entry.commit[:12]} is pinned for vLLM {entry.vllm_version}, not "
                f"{settings.vllm_version}: make pin-patch again, or take it out"
            )
        found[entry.as_patch(number).name] = pinned_text(entry, Network.of(settings))
    return found


def route(asked: str, patches: Sequence[Patch]) -> Literal["overlay", "source"]:
    """How the release is made: auto is overlay unless a patch touches what must be compiled.

    Raises ValueError when overlay is asked for and cannot be.
    """
    compiled = [(patch.name, path) for patch in patches for path in patch.compiled]
    if asked == "overlay" and compiled:
        name, path = compiled[0]
        raise ValueError(
            f"build_route = 'overlay' cannot bring {name} into force: it touches {path}, which "
            "must be compiled: say 'auto' or 'source'"
        )
    return "source" if asked == "source" or compiled else "overlay"


def pinned_text(entry: PinnedPatch, way: Network = AS_IN_ENVIRONMENT) -> str:
    """The text of a pinned patch, out of files/patches/pinned or from its URL, checked."""
    if not entry.file.is_file():
        keep(entry.file, fetch(entry.url, way), entry.hunks_sha256)
    text = entry.file.read_text(encoding="utf-8")
    found = hunks_sha256(text)
    if found != entry.hunks_sha256:
        raise ValueError(
            f"{entry.file}: its hunks have sha256 {found}, pinned are {entry.hunks_sha256}"
        )
    return text


def fetch(url: str, way: Network = AS_IN_ENVIRONMENT) -> str:
    """A patch as its server has it. ValueError says which file to put where instead."""
    file = PINNED / url.rpartition("/")[2]
    try:
        answer = way.get(url, FETCH_TIMEOUT_S)
        answer.raise_for_status()
    except requests.RequestException as error:
        why = type(error).__name__
        raise ValueError(f"cannot fetch {url} ({why}): save it as {file} by other means") from error
    return answer.content.decode("utf-8")


def keep(file: Path, text: str, expected: str) -> None:
    """Write a fetched patch down, when it is the pinned one."""
    found = hunks_sha256(text)
    if found != expected:
        raise ValueError(f"{file.name}: fetched hunks have sha256 {found}, pinned are {expected}")
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)


def hunks_sha256(text: str) -> str:
    """A hash of what a patch does.

    A served .patch is not byte-stable: the mail's headers and its signature may change, and an
    index line shortens hashes to a length that depends on the server. None of these counts.
    ValueError for a text without a hunk.
    """
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith("diff --git ")), len(lines))
    kept = []
    for number, line in enumerate(lines[start:], start):
        if line == "-- " and number >= len(lines) - 3:
            break
        if not line.startswith("index "):
            kept.append(line)
    while kept and not kept[-1]:
        kept.pop()
    if not any(line.startswith(("@@ ", "rename ", "deleted ", "new file ")) for line in kept):
        raise ValueError("this is not a patch: it has no hunk")
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()


def numbers(version: str) -> tuple[int, ...]:
    """A version for comparing: 0.9.1 is older than 0.31.0."""
    return tuple(int(part) for part in version.split("."))
