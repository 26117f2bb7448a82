"""What builds a release: the pinned pip, uv and wheel in an environment of their own."""

import itertools
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from hostkit.host import paths
from hostkit.host.process import Failure, run, write_atomic
from hostkit.release import inputs, installed, wheel

_PIP = ("--disable-pip-version-check", "--no-input", "--no-cache-dir", "--progress-bar=off")
_CHECKED = ("--no-deps", "--require-hashes")


class Tools:
    """The tools for one build. What they fetch is checked by hash, wherever it comes from."""

    def __init__(self, spec: inputs.Spec, keep_open: Sequence[int] = ()) -> None:
        self.spec = spec
        # Children inherit these: a lock that one holds outlives a killed build.
        self.keep_open = keep_open
        self.folder = paths.TOOLS / wheel.sha256(spec.folder / "tools.txt")[:12]
        self.python = self.folder / "bin/python"

    def make(self) -> None:
        """Make the environment; once per set of pins and version of Python."""
        python, pins = self.spec.python, self.spec.folder / "tools.txt"
        # A new Python of the distribution finds nothing in an environment of the old one.
        complete = f"{wheel.sha256(pins)} for {installed.python_version(Path(python))}\n"
        stamp = self.folder / "complete"
        if stamp.is_file() and stamp.read_text("utf-8") == complete:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.run([python, "-m", "venv", self.folder], f"{python} -m venv (needs python3-venv)")
        checked = [*_PIP, *_CHECKED, "--only-binary=:all:", *self.links()]
        self.run(
            [self.python, "-m", "pip", "install", *checked, "-r", pins], "install the build tools"
        )
        write_atomic(stamp, complete)

    def download_wheel(self, to: Path) -> None:
        """Download the wheel that wheel.txt pins."""
        pins = self.spec.folder / "wheel.txt"
        checked = [*_PIP, *_CHECKED, "--only-binary=:all:", *self.links()]
        self.run(
            [self.folder / "bin/pip", "download", *checked, "-r", pins, "-d", to],
            "download the wheel",
        )

    def download_source(self, python: Path, env: Mapping[str, str], to: Path) -> None:
        """Download the source archive that sdist.txt pins.

        pip asks it for its metadata, so `python` must be one that has what its setup.py imports.
        """
        pins = self.spec.folder / "sdist.txt"
        checked = [*_PIP, *_CHECKED, "--no-binary=:all:", "--no-build-isolation", *self.links()]
        self.run(
            [python, "-m", "pip", "download", *checked, "-r", pins, "-d", to],
            "download the source",
            env=env,
        )

    def install_locked(self, venv: Path, locks: Sequence[Path], *options: str) -> None:
        """Install the requirements of lock files in one go."""
        sources = self.links() or [f"--index={url}" for url in self.spec.extra_index_urls]
        # Every line is pinned by hash, so it does not matter which index a file comes from.
        checked = [*_CHECKED, "--no-build", "--index-strategy=unsafe-best-match"]
        wanted = [
            f"--python={venv}",
            *checked,
            *sources,
            *options,
            *(f"-r{lock}" for lock in locks),
        ]
        try:
            # What an earlier release brought is enough for the next one, without a network, too.
            self.uv("pip", "install", *wanted, "--offline")
        except Failure:
            self.uv("pip", "install", *wanted)

    def install_wheel(self, venv: Path, file: Path) -> None:
        # No other release can use such a wheel, so the lasting cache is spared a copy.
        cache = f"--cache-dir={paths.WORK / 'uv'}"
        options = [cache, "--no-deps", "--no-index", "--compile-bytecode"]
        self.uv("pip", "install", f"--python={venv}", *options, file)

    def uv(self, *arguments: str | Path) -> str:
        env = {
            **os.environ,
            "UV_CACHE_DIR": str(paths.DOWNLOADS / "uv"),
            # An operator's own certificate authority is in the system's store only.
            "UV_SYSTEM_CERTS": "1",
            "UV_NO_PROGRESS": "1",
            "NO_COLOR": "1",
        }
        words = itertools.takewhile(str.isalpha, map(str, arguments))
        return self.run([self.folder / "bin/uv", *arguments], " ".join(["uv", *words]), env=env)

    def links(self) -> list[str]:
        return [f"--find-links={place}" for place in self.spec.find_links]

    def run(
        self, command: Sequence[str | Path], what: str, *, env: Mapping[str, str] | None = None
    ) -> str:
        return run(command, what, env=env, keep_open=self.keep_open)
