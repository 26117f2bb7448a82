"""A release: a patched vLLM with all that it needs, named by the hash of what goes in."""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.shared.engine import compat
from tasks.shared.release import packages, patches, plugins

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

LOCKS = Path("files/locks")
INPUTS_DIR = "/opt/vllm/inputs"

_PYTHONS = {"cpu": ["3.11"], "cuda": ["3.10", "3.11", "3.12", "3.13"]}
# The CPU build of torch has a hash for one only.
_OLDEST_PYTHON = re.compile(r"^# Requires-Python:.*>= *3\.(\d+)", re.MULTILINE)

# Built for CUDA, and broken beside a CPU torch; a text model needs none of them.
_DROPPED_ON_CPU = ["torchaudio", "torchcodec", "torchvision"]


@dataclass(frozen=True)
class Release:
    """A release to build: its name, its server's version, what it is built of; is it compiled?"""

    name: str
    installed_version: str
    inputs: dict[str, str]
    is_compiled: bool = False


def versions() -> list[str]:
    """The versions of vLLM that can be deployed: they have locks, a series and a manifest."""
    return [version for version in locked() if not missing(version)]


def missing(version: str) -> list[str]:
    """What a version lacks to be deployed, as the places where it is looked for."""
    there = {
        f"{LOCKS}/vllm-{version}-*": version in locked(),
        f"{patches.PATCHES}/vllm-{version}/series.toml": patches.has_series(version),
        f"{compat.MANIFESTS}/vllm-{version}": version in compat.versions(),
    }
    return [place for place, is_there in there.items() if not is_there]


def locked() -> list[str]:
    """The versions that have locks, oldest first."""
    pins = {
        re.match(r"vllm-(\d+\.\d+\.\d+)-(cpu|cuda)\.wheel\.txt$", p.name) for p in LOCKS.iterdir()
    }
    found = {m[1] for m in pins if m and (LOCKS / f"vllm-{m[1]}-{m[2]}.txt").is_file()}
    return sorted(found, key=patches.numbers)


def pythons(version: str, accelerator: str) -> list[str]:
    """The host's Pythons that a version's locks are for."""
    oldest = _OLDEST_PYTHON.search(_read(f"vllm-{version}-{accelerator}.wheel.txt"))
    minor = int(oldest[1]) if oldest else 0
    return [each for each in _PYTHONS[accelerator] if int(each.partition(".")[2]) >= minor]


def wanted(settings: "Settings") -> Release:
    """The release that these settings ask for. The same settings give the same name on any host."""
    route = patches.route(settings.build_route, patches.wanted(settings))
    built_from, inputs = _built_from(settings, route), _inputs(settings, route)
    digest = _digest(built_from, inputs)
    name = f"{settings.vllm_version}-{digest}"
    # vLLM takes itself for a CPU build when, and only when, its version contains "cpu".
    label = "cpu.patched" if settings.accelerator == "cpu" else "patched"
    installed_version = f"{settings.vllm_version}+{label}.{digest}"
    # Where packages are fetched from does not change what is built: all is checked by hash.
    spec = built_from | {
        "name": name,
        "installed_version": installed_version,
        "find_links": settings.find_links,
        "extra_index_urls": settings.extra_index_urls,
        "memory_floor_mib": settings.memory_floor_mib,
        "build_jobs": settings.build_jobs,
        "cuda_arch_list": settings.cuda_arch_list,
    }
    inputs["spec.json"] = json.dumps(spec, indent=2) + "\n"
    return Release(name, installed_version, inputs, route == "source")


def _built_from(settings: "Settings", route: str) -> dict[str, object]:
    """What decides what a build makes of its inputs."""
    return {
        "version": settings.vllm_version,
        "route": route,
        "accelerator": settings.accelerator,
        "patches": [
            {"name": patch.name, "files": {k: v.model_dump() for k, v in patch.files.items()}}
            for patch in patches.wanted(settings)
        ],
        "drop_requirements": _DROPPED_ON_CPU if settings.accelerator == "cpu" else [],
        "python": "/usr/bin/python3",
        "imports": packages.imports(settings.vllm_version),
        **(_compiled_with(settings) if route == "source" else {}),
    }


def _inputs(settings: "Settings", route: str) -> dict[str, str]:
    """The files of the inputs folder, all but spec.json."""
    return {
        **_pins(settings, route),
        "lock.txt": _read(f"vllm-{settings.vllm_version}-{settings.accelerator}.txt"),
        "tools.txt": _read("tools.txt"),
        **{f"patches/{name}": text for name, text in patches.texts(settings).items()},
        **packages.inputs(),
        **({"plugins.txt": plugins.lock(settings.plugins)} if settings.plugins else {}),
    }


def _compiled_with(settings: "Settings") -> dict[str, object]:
    """What decides what comes out of the compilers, besides the sources."""
    archs = settings.cuda_arch_list if settings.accelerator == "cuda" else ""
    return {"source": settings.vllm_source, "cuda_arch_list": archs}


def _pins(settings: "Settings", route: str) -> dict[str, str]:
    """The input that vLLM itself comes from, and what compiles it."""
    version = settings.vllm_version
    if route == "overlay":
        return {"wheel.txt": _read(f"vllm-{version}-{settings.accelerator}.wheel.txt")}
    pins = {"build.txt": _read("build.txt")}
    if settings.vllm_source == "sdist":
        pins["sdist.txt"] = _read(f"vllm-{version}.sdist.txt")
    return pins


def _read(name: str) -> str:
    return (LOCKS / name).read_text(encoding="utf-8")


def _digest(built_from: dict[str, object], inputs: dict[str, str]) -> str:
    content = json.dumps([built_from, sorted(inputs.items())], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]
