"""Packages of our own that every release holds, as the text of unpacked wheels."""

import ast
import tomllib
from pathlib import Path
from typing import Any

from tasks.shared import trees

SCHEDULER = Path("files/scheduler")
PROMPT_SOURCE = Path("files/prompt_source")
SCHEDULER_CLASS = "shortest_first.scheduler.ShortestFirstScheduler"
ASYNC_SCHEDULER_CLASS = "shortest_first.scheduler.AsyncShortestFirstScheduler"


def inputs() -> dict[str, str]:
    """The packages as files of a release's inputs."""
    return _unpacked(SCHEDULER, "shortest_first") | _unpacked(PROMPT_SOURCE, "prompt_source")


def checked_versions() -> list[str]:
    """The versions of vLLM that the scheduler was tested on, as it says itself."""
    source = (SCHEDULER / "shortest_first/versions.py").read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CHECKED":
            return list(ast.literal_eval(node.value))
    raise ValueError(f"{SCHEDULER}/shortest_first/versions.py: CHECKED is not in it")


def imports(version: str) -> list[str]:
    """The modules that must import beside this version of vLLM before a release counts."""
    return ["shortest_first.scheduler"] if version in checked_versions() else []


def _unpacked(folder: Path, package: str) -> dict[str, str]:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sources = trees.read(folder / package)
    files = {f"{package}/{path}": text for path, text in sources.items()} | _dist_info(project)
    return {f"packages/{project['name']}/{path}": text for path, text in files.items()}


def _dist_info(project: dict[str, Any]) -> dict[str, str]:
    name, version = project["name"], project["version"]
    folder = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}",
    ]
    wheel = [
        "Wheel-Version: 1.0",
        "Generator: hostkit",
        "Root-Is-Purelib: true",
        "Tag: py3-none-any",
    ]
    entry_points = [
        line
        for group, entries in project.get("entry-points", {}).items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()))
    ]
    found = {"METADATA": metadata, "WHEEL": wheel, "entry_points.txt": entry_points}
    return {f"{folder}/{name}": "\n".join(text) + "\n" for name, text in found.items() if text}
