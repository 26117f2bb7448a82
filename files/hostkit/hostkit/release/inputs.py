"""The folder that the control machine uploads for a release: spec.json and what it speaks of."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostkit.host.process import Failure, read_json
from hostkit.release import overlay, wheel

_NEEDED = {"overlay": ["wheel.txt"], "source": ["build.txt"]}
_NAME = re.compile(r"[0-9][0-9A-Za-z.]*-[0-9a-f]{12}")


@dataclass(frozen=True)
class Spec:
    """spec.json of an inputs folder."""

    folder: Path
    name: str
    installed_version: str
    """What `vllm --version` and /version will say: it names the release."""

    accelerator: str
    patches: tuple[overlay.Patch, ...]
    drop_requirements: tuple[str, ...]
    imports: tuple[str, ...]
    """Modules of our own packages that must import."""

    python: str
    find_links: tuple[str, ...]
    extra_index_urls: tuple[str, ...]
    memory_floor_mib: int | None
    """What must stay available while it is built; None for the guard's default."""

    route: str = "overlay"
    """overlay: vLLM's own wheel is patched; source: it is compiled."""

    source: str = "sdist"
    """What is compiled: sdist, the archive that sdist.txt pins, or <git URL>@<commit>."""

    target_device: str = ""
    """VLLM_TARGET_DEVICE: the accelerator, or empty for a vLLM without kernels."""

    cuda_arch_list: str = ""
    build_jobs: int = 1

    @property
    def compiles_sdist(self) -> bool:
        return self.route == "source" and self.source == "sdist"

    def locks(self) -> list[Path]:
        """What is installed beside vLLM: the lock, and that of the operator's plugins."""
        files = (self.folder / name for name in ("lock.txt", "plugins.txt"))
        return [file for file in files if file.is_file()]

    def inputs(self) -> dict[str, str]:
        """sha256 of every file of the inputs folder."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): wheel.sha256(path) for path in files}


def read_spec(folder: Path) -> Spec:
    """Read and check an inputs folder. Raises Failure naming the file and the key."""
    file = folder / "spec.json"
    raw = read_json(file)
    try:
        spec = _spec(folder, raw)
    except (KeyError, TypeError, AttributeError) as error:
        raise Failure(f"{file}: missing or of another type: {error}") from error
    _check(spec, file)
    return spec


def _spec(folder: Path, raw: Mapping[str, Any]) -> Spec:
    return Spec(
        folder=folder.resolve(),
        name=_text(raw, "name"),
        installed_version=_text(raw, "installed_version"),
        accelerator=_text(raw, "accelerator"),
        patches=tuple(
            overlay.Patch(
                folder.resolve() / "patches" / Path(each["name"]).name,
                {
                    path: overlay.Change(change.get("before"), change.get("after"))
                    for path, change in each["files"].items()
                },
            )
            for each in raw["patches"]
        ),
        drop_requirements=tuple(raw.get("drop_requirements", ())),
        imports=tuple(raw.get("imports", ())),
        python=raw.get("python", "/usr/bin/python3"),
        find_links=tuple(raw.get("find_links", ())),
        extra_index_urls=tuple(raw.get("extra_index_urls", ())),
        memory_floor_mib=raw.get("memory_floor_mib"),
        route=raw.get("route", "overlay"),
        source=raw.get("source", "sdist"),
        target_device=raw.get("target_device", raw["accelerator"]),
        cuda_arch_list=raw.get("cuda_arch_list", ""),
        build_jobs=raw.get("build_jobs", 1),
    )


def _check(spec: Spec, file: Path) -> None:
    if not _NAME.fullmatch(spec.name):
        raise Failure(f"{file}: name {spec.name!r}: expected <version>-<12 hex digits>")
    if spec.accelerator not in ("cpu", "cuda"):
        raise Failure(f"{file}: accelerator {spec.accelerator!r}: expected cpu or cuda")
    if spec.route not in _NEEDED:
        raise Failure(f"{file}: route {spec.route!r}: expected {' or '.join(_NEEDED)}")
    needs = [*_NEEDED[spec.route], *(["sdist.txt"] if spec.compiles_sdist else [])]
    for needed in (*needs, "lock.txt", "tools.txt"):
        if not (spec.folder / needed).is_file():
            raise Failure(f"{spec.folder / needed}: no such file: upload the inputs again")
    listed = {patch.path for patch in spec.patches}
    present = {path.resolve() for path in (spec.folder / "patches").glob("*.patch")}
    if listed != present:
        odd = ", ".join(sorted(path.name for path in listed ^ present))
        raise Failure(f"{file}: patches and the folder patches/ differ: {odd}")


def _text(raw: Mapping[str, Any], key: str) -> str:
    value = raw[key]
    if not isinstance(value, str):
        raise TypeError(f"{key}: expected a text")
    return value
