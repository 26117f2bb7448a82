"""A KV tier's folder with blocks of any age, pruned by hostkit."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hostkit.host import paths
from hostkit.kv import prune

USED, UNUSED = "0123456789ab", "ba9876543210"
NOW = 1_899_999_960
HOUR = 3600
LAYOUT = "{fingerprint}/m_0a1b_r0/{name:.3}/00_g0/{name}.bin"


class Tier:
    """A tier's folder with blocks of 10 bytes, a quota of 100 and one generation that uses it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "kv"
        self.folder.mkdir()
        (self.folder / prune.MARKER).touch()
        self.limits(quota=100)
        self.generation(1, USED)

    def limits(self, **changes: int) -> None:
        values = {"quota": 100, "min_free": 0} | changes
        told = {f"{name}_bytes": value for name, value in values.items()}
        paths.ETC.mkdir(exist_ok=True)
        prune.LIMITS.write_text(json.dumps({"folder": str(self.folder), **told}))

    def generation(self, number: int, fingerprint: str) -> None:
        folder = paths.GENERATIONS / str(number)
        folder.mkdir(parents=True)
        names = ("digest", "release", "version", "served_model_name", "model_dir", "address")
        (folder / "generation.json").write_text(json.dumps(dict.fromkeys((*names, "port"), "")))
        (folder / "serve.yaml").write_text(f"root_dir: {self.folder}/{fingerprint}\n")

    def block(self, name: str, hours_ago: float, fingerprint: str = USED, size: int = 10) -> Path:
        file = self.folder / LAYOUT.format(fingerprint=fingerprint, name=name)
        return self.file(file, hours_ago, size)

    def file(self, file: Path, hours_ago: float, size: int = 10) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(size))
        used = NOW - hours_ago * HOUR
        os.utime(file, (used, used))
        return file

    def blocks(self, count: int, fingerprint: str = USED) -> list[Path]:
        """So many, the first used an hour ago, each other an hour earlier than the one before."""
        return [self.block(f"{number:064x}", number + 1, fingerprint) for number in range(count)]

    def left(self) -> set[Path]:
        return {path for path in self.folder.rglob("*.*") if path.is_file()} - {
            self.folder / prune.MARKER
        }


def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Tier:
    """A tier in this folder; hostkit takes it for the host's."""
    monkeypatch.setattr(paths, "ETC", folder / "etc")
    monkeypatch.setattr(prune, "LIMITS", folder / "etc/kv-tier.json")
    monkeypatch.setattr(paths, "GENERATIONS", folder / "generations")
    monkeypatch.setattr(paths, "CURRENT", folder / "current")
    monkeypatch.setattr(paths, "HEALTH", folder / "health")
    return Tier(folder)


def pruned(**how: Any) -> list[str]:
    """What a prune says that leaves temporary files of the last day alone."""
    return prune.prune(NOW - 24 * HOUR, **how)
