"""An installed release: where its packages lie, and whether they are as they were installed."""

import contextlib
import csv
import hashlib
import os
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostkit.host import paths
from hostkit.host.process import Failure, read_json, run
from hostkit.release import wheel


def damage(target: Path, deep: bool = False) -> str | None:
    """What is wrong with a complete release, or None; `deep` hashes every installed file."""
    venv = target / "venv"
    try:
        manifest = _manifest(target)
        version = python_version(venv / "bin/python")
        if version.split(".")[:2] != manifest["python"].split(".")[:2]:
            return f"its Python is {version} now and was {manifest['python']}"
        now = records(venv)
    except (Failure, OSError) as error:
        return str(error)
    for name in sorted({*now, *manifest["records"]}):
        if now.get(name) != manifest["records"].get(name):
            return f"{name}/RECORD is not as it was installed"
    if wrong := missing(venv) or unpatched(target, manifest):
        return wrong
    for each in altered(venv) if deep else ():
        if manifest["misrecorded"].get(each.path) != each.digest:
            return f"{each.path} of {each.owner} is not as it was installed"
    return None


def _manifest(target: Path) -> Mapping[str, Any]:
    file = target / "manifest.json"
    found = read_json(file)
    if not (isinstance(found, dict) and found.keys() >= {"python", "records", "patches"}):
        raise Failure(f"{file}: is no manifest of a release")
    return found


def unpatched(target: Path, manifest: Mapping[str, Any]) -> str | None:
    """The first patched file of a release that is not as its last patch left it, or None.

    Of a compiled file nothing is left to look at.
    """
    wanted = {
        path: change["after"]
        for patch in manifest["patches"]
        for path, change in patch["files"].items()
        if path.startswith("vllm/") and path.endswith(".py")
    }
    site = site_packages(target / "venv")
    for path, digest in wanted.items():
        found = wheel.sha256(site / path) if (site / path).is_file() else None
        if found != digest:
            return f"{path} is not as the patches left it"
    return None


@dataclass(frozen=True)
class Altered:
    """An installed file that is not as a RECORD says; `digest` as RECORD writes it, or "missing".

    `path` is relative to site-packages, `owner` the name of the distribution's .dist-info folder.
    """

    path: str
    owner: str
    digest: str


def altered(venv: Path, among: Callable[[str], bool] = lambda _path: True) -> list[Altered]:
    """All installed files that differ from their RECORD, of those that `among` names.

    A file that several distributions bring is right when it is as one of them says.
    """
    site = site_packages(venv)
    stated: dict[str, set[str]] = {}
    owner = {}
    for name, path, digest in listed(venv):
        if digest and among(path):
            stated.setdefault(path, set()).add(digest)
            owner[path] = name
    found = []
    for path, digests in stated.items():
        algorithm = min(digests).partition("=")[0]
        digest = _digest(site / path, algorithm) if (site / path).is_file() else "missing"
        if digest not in digests:
            found.append(Altered(path, owner[path], digest))
    return found


def listed(venv: Path) -> Iterator[tuple[str, str, str]]:
    """Each row of every RECORD: the .dist-info folder's name, path, digest ("" for none)."""
    for info in sorted(site_packages(venv).glob("*.dist-info")):
        with (info / "RECORD").open(encoding="utf-8", newline="") as file:
            for row in filter(None, csv.reader(file)):
                yield info.name, row[0], "".join(row[1:2])


def missing(venv: Path) -> str | None:
    """A module of the installed packages that is gone, or None; looks at names only, 0.2 s.

    A package that was installed could be imported: the build has tried it.
    """
    site = site_packages(venv)
    for owner, path, _ in listed(venv):
        is_module = path.endswith((".py", ".so")) and "__pycache__" not in path
        if is_module and not os.path.exists(f"{site}/{path}"):
            return f"{path} of {owner} is gone"
    return None


def records(venv: Path) -> dict[str, str]:
    """sha256 of the RECORD of every distribution of a virtual environment."""
    found = sorted(site_packages(venv).glob("*.dist-info/RECORD"))
    return {path.parent.name: wheel.sha256(path) for path in found}


def site_packages(venv: Path) -> Path:
    """Where a virtual environment keeps its packages. Raises Failure when it has no such folder."""
    found = sorted(venv.glob("lib/python3.*/site-packages"))
    if len(found) != 1:
        raise Failure(f"{venv}: {len(found)} site-packages folders, expected one")
    return found[0]


def vllm_dist_info(venv: Path) -> Path:
    """The .dist-info folder of the installed vLLM."""
    found = sorted(site_packages(venv).glob("vllm-*.dist-info"))
    if len(found) != 1:
        raise Failure(f"{venv}: {len(found)} distributions called vllm, expected one")
    return found[0]


def python_version(python: Path) -> str:
    """The version of an interpreter, e.g. 3.11.2."""
    script = "import platform; print(platform.python_version())"
    return run([python, "-ISc", script], f"version of {python}").strip()


def misrecorded_before() -> dict[str, str]:
    """What the releases on this host have found to differ from its RECORD at its source."""
    known: dict[str, str] = {}
    for manifest in paths.RELEASES.glob("*/manifest.json"):
        # One that is damaged says nothing, and its release is built again before it serves.
        with contextlib.suppress(Failure):
            known |= _manifest(manifest.parent).get("misrecorded", {})
    return known


def _digest(path: Path, algorithm: str) -> str:
    """A file's digest as RECORD writes it: sha256=<urlsafe base64 without padding>."""
    digest = hashlib.new(algorithm)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return f"{algorithm}={urlsafe_b64encode(digest.digest()).rstrip(b'=').decode()}"
