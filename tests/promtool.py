"""Prometheus and its promtool: out of the distribution's package, once, and not installed."""

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.rehearsal.host import control, state


@cache
def program(name: str = "promtool") -> Path:
    """Where promtool, or prometheus, lies; an error that says what is missing without it."""
    folder = state.make_folder(control.cache() / "promtool")
    with state.locked(folder):
        found = folder / "usr/bin" / name
        if not found.exists():
            with tempfile.TemporaryDirectory(dir=folder) as work:
                _download("prometheus", work)
                (package,) = Path(work).glob("prometheus_*.deb")
                _run(["dpkg-deb", "--extract", str(package), "unpacked"], work)
                found.parent.mkdir(parents=True, exist_ok=True)
                (Path(work) / "unpacked/usr/bin" / name).rename(found)
    return found


def run(*arguments: str, cwd: Path | str = ".") -> subprocess.CompletedProcess[str]:
    """Run it; what it says is on both outputs."""
    command = [str(program()), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def _download(package: str, folder: str) -> None:
    try:
        _run(["apt-get", "--quiet", "download", package], folder)
    except RuntimeError:
        # A new machine has no lists to find it in.
        sudo = ["sudo", "-n"] if os.geteuid() else []
        _run([*sudo, "apt-get", "--quiet", "update"], folder)
        _run(["apt-get", "--quiet", "download", package], folder)


def _run(command: list[str], folder: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
