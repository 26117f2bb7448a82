"""A version's patch series, as files/patches/vllm-<version>/series.toml lists it."""

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

PATCHES = Path("files/patches")
Sha256 = Field(pattern=r"^[0-9a-f]{64}$")


class FileHashes(BaseModel):
    """sha256 of one file before and after a patch: the proof that it was applied.

    A file that the patch adds has no `before`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    before: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    after: str = Sha256


class Patch(BaseModel):
    """One entry of a series."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^\d{4}-[a-z0-9-]+\.patch$")
    title: str
    upstream: str
    why: str
    until: str
    files: dict[str, FileHashes] = Field(min_length=1)


def series(version: str) -> list[Patch]:
    """The patches for a version of vLLM, in order; ValueError when list and folder disagree."""
    folder = PATCHES / f"vllm-{version}"
    listing = folder / "series.toml"
    if not listing.is_file():
        return []
    entries = tomllib.loads(listing.read_text(encoding="utf-8")).get("patch", [])
    patches = [Patch.model_validate(entry) for entry in entries]
    listed = [patch.name for patch in patches]
    present = {file.name for file in folder.glob("*.patch")}
    if listed != sorted(set(listed)) or set(listed) != present:
        raise ValueError(
            f"{listing} lists {listed}, the folder holds {sorted(present)}: "
            "every patch must be listed once, in order"
        )
    return patches


def text(version: str, patch: Patch) -> str:
    return (PATCHES / f"vllm-{version}" / patch.name).read_text(encoding="utf-8")
