"""Where a model comes from, and what proves that it is the same model: no host is asked here."""

import contextlib
import hashlib
import json
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

from hostkit.model import modelconfig, weights
from tasks.shared import texts

MODELS_DIR = "/var/lib/vllm/models"
FORMS = "must be host:/folder, control:folder or hf:owner/name@commit with all 40 digits"


@dataclass(frozen=True)
class ModelSource:
    """The setting `model`, taken apart."""

    kind: Literal["host", "control", "hf"]
    location: str
    revision: str = ""

    @property
    def folder_on_host(self) -> str:
        """A folder on the host is used in place; anything else lies below /var/lib/vllm/models."""
        if self.kind == "host":
            return self.location
        if self.kind == "control":
            # Other weights lie in another folder, so that an older generation still finds its own.
            name = PurePosixPath(self.location).name
            return f"{MODELS_DIR}/{name}-{content_identity(self.location)[:12]}"
        return f"{MODELS_DIR}/{self.location.replace('/', '--')}-{self.revision[:12]}"


def parse(text: str) -> ModelSource:
    """Read the setting `model`; ValueError names the three forms."""
    kind, _, location = text.partition(":")
    if kind == "host" and location:
        return ModelSource("host", texts.absolute_path(location))
    if kind == "control" and re.fullmatch(r"[\w.+@-]+", PurePosixPath(location).name):
        return ModelSource("control", texts.one_line(location))
    match = re.fullmatch(r"([\w.-]+/[\w.-]+)@([0-9a-f]{40})", location)
    if kind == "hf" and match:
        return ModelSource("hf", match[1], match[2])
    raise ValueError(FORMS)


@dataclass(frozen=True)
class Demands:
    """What the settings ask of a model; `methods` are the known quantization methods, if known."""

    max_model_len: int
    methods: tuple[str, ...]

    def options(self) -> list[str]:
        """The same as options of `hostkit check-model`."""
        return [f"--max-model-len={self.max_model_len}", f"--methods={','.join(self.methods)}"]


def check_fit(source: ModelSource, demands: Demands) -> None:
    """Refuse a control-machine folder that does not fit the settings; ValueError says why."""
    if source.kind != "control":
        return
    found = modelconfig.misfits(
        texts.local_path(source.location),
        max_model_len=demands.max_model_len,
        methods=demands.methods,
    )
    if found:
        raise ValueError(f"model = {source.location!r}: {'; '.join(found)}")


def check_source(source: ModelSource) -> None:
    """Refuse a folder of the control machine that is no model; ValueError says what is missing."""
    if source.kind != "control":
        return
    folder = texts.local_path(source.location)
    if not folder.is_dir():
        raise ValueError("there is no such folder on this machine")
    found = weights.problems(folder)
    if found:
        raise ValueError(f"is not a complete model: {'; '.join(found)}")


@cache
def content_identity(location: str) -> str:
    """The hash of a control-machine folder: names and contents. The same on every machine."""
    digest = hashlib.sha256()
    for name, file_hash in content_hashes(location).items():
        digest.update(f"{name}\0{file_hash}\n".encode())
    return digest.hexdigest()


@cache
def content_hashes(location: str) -> dict[str, str]:
    """File name to sha256 of its content, for a folder of the control machine.

    Gigabytes are read once: hashes are remembered by a file's path, size and time.
    """
    remembered = _remembered()
    hashes: dict[str, str] = {}
    fresh: dict[str, str] = {}
    for file in weights.files(texts.local_path(location)):
        info = file.stat()
        key = f"{file.absolute()}\0{info.st_size}\0{info.st_mtime_ns}\0{info.st_ino}"
        fresh[key] = hashes[file.name] = remembered.get(key) or _sha256(file)
    if not fresh.items() <= remembered.items():
        _remember(remembered | fresh)
    return hashes


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _memory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "vllm-wsl2-deploy/sha256.json"


def _remembered() -> dict[str, str]:
    try:
        found = json.loads(_memory().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _remember(hashes: dict[str, str]) -> None:
    """Write the memory; a machine that does not let us pays with the time, not with an error."""
    file = _memory()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        staged = file.with_name(f"{file.name}.{os.getpid()}")
        staged.write_text(json.dumps(hashes), encoding="utf-8")
        staged.replace(file)
