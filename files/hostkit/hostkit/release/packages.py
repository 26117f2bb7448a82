"""Packages of our own in a release: uploaded as the text of an unpacked wheel, installed as one.

They lie in the inputs folder as packages/<name>/, with a .dist-info folder that has all but RECORD.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hostkit.host.process import Failure, run
from hostkit.release import installed


def folders(inputs: Path) -> list[Path]:
    """The unpacked packages of an inputs folder. Raises Failure for one that cannot be packed."""
    found = sorted(path for path in (inputs / "packages").glob("*") if path.is_dir())
    for folder in found:
        count = len(list(folder.glob("*.dist-info/METADATA")))
        if count != 1:
            raise Failure(f"{folder}: {count} .dist-info/METADATA, expected one: upload it again")
    return found


def pack(folder: Path, python: Path, target: Path, keep_open: Sequence[int] = ()) -> Path:
    """Pack one of them as a wheel, below `target`; return the file."""
    target = target / folder.name
    target.mkdir(parents=True)
    command = ("wheel", "pack", folder, "-d", target)
    run([python, "-m", *command], f"pack {folder.name}", keep_open=keep_open)
    (packed,) = target.glob("*.whl")
    return packed


def check_imports(venv: Path, modules: Sequence[str], env: Mapping[str, str]) -> None:
    """Import modules with a release's Python. Raises Failure with the last line of what is said."""
    if not (installed.site_packages(venv) / "vllm/v1/core/sched").is_dir():
        return  # a stand-in for vLLM: there is no scheduler to take the place of
    for module in modules:
        run([venv / "bin/python", "-I", "-c", f"import {module}"], f"import {module}", env=env)
