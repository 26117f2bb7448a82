"""An imitation of NVIDIA's apt repository: its packages' names, a key of its own, on loopback.

Only nvcc is real: its package holds the compiler out of NVIDIA's wheels.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import http.server
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.imitation_http import Quiet, serving

from ..host import state
from ..host.control import cache, run

WHEELS = Path(__file__).with_name("nvcc.txt")
HOME = "usr/local/cuda-13.0"


def toolkit() -> Path:
    """A folder with bin/nvcc 13.0 and all that it needs to compile; downloaded once."""
    key = hashlib.sha256(WHEELS.read_bytes()).hexdigest()[:12]
    folder = cache() / "nvcc" / key
    with state.locked(cache() / "nvcc"):
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            wheels = folder / "wheels"
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            run([*pip, "--require-hashes", "--requirement", WHEELS, "--dest", wheels], timeout=600)
            for wheel in wheels.glob("*.whl"):
                zipfile.ZipFile(wheel).extractall(folder)
            shutil.rmtree(wheels)
            for pattern in ("bin/*", "nvvm/bin/*"):
                for program in folder.glob(f"nvidia/cu13/{pattern}"):
                    program.chmod(0o755)
            (folder / "ready").touch()
    return folder / "nvidia/cu13"


@dataclass(frozen=True)
class Repository:
    """A flat apt repository in a folder, and who signs it."""

    folder: Path
    home: Path
    fingerprint: str

    @classmethod
    def make(cls, folder: Path) -> Repository:
        """An empty one with a new key, which lies in it as NVIDIA's does."""
        folder.mkdir()
        home = folder.with_name(f"{folder.name}.gnupg")
        home.mkdir(mode=0o700)
        gpg = ["gpg", f"--homedir={home}", "--batch", "--quiet", "--passphrase="]
        run([*gpg, "--quick-generate-key", "an imitation of NVIDIA", "rsa2048"])
        listing = run([*gpg, "--with-colons", "--list-keys"])
        fingerprint = next(x for x in listing.splitlines() if x.startswith("fpr:")).split(":")[9]
        key = folder / f"{fingerprint[-8:].lower()}.pub"
        run([*gpg, "--armor", f"--output={key}", "--export", fingerprint])
        return cls(folder, home, fingerprint)

    def add(
        self,
        name: str,
        version: str,
        depends: str = "",
        files: Mapping[str, str] | None = None,
        trees: Mapping[str, Path] | None = None,
    ) -> Path:
        """Build a package with these files and folders, paths without the leading slash."""
        root = self.home / "package"
        (root / "DEBIAN").mkdir(parents=True)
        control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n"
        control += f"Maintainer: nobody <nobody@localhost>\nDescription: an imitation of {name}\n"
        control += f"Depends: {depends}\n" if depends else ""
        (root / "DEBIAN/control").write_text(control)
        for path, text in (files or {}).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        for path, tree in (trees or {}).items():
            shutil.copytree(tree, root / path, dirs_exist_ok=True)
        package = self.folder / f"{name}_{version}_amd64.deb"
        run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", root, package])
        shutil.rmtree(root)
        return package

    def publish(self) -> None:
        """Write the lists over all packages and sign them."""
        stanzas = []
        for package in sorted(self.folder.glob("*.deb")):
            content = package.read_bytes()
            control = run(["dpkg-deb", "--field", package]).strip()
            stanzas.append(
                f"{control}\nFilename: ./{package.name}\nSize: {len(content)}\n"
                f"SHA256: {hashlib.sha256(content).hexdigest()}\n"
            )
        lists = "\n".join(stanzas).encode()
        (self.folder / "Packages").write_bytes(lists)
        (self.folder / "Packages.gz").write_bytes(gzip.compress(lists))
        hashes = "".join(
            f" {hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_size} {path.name}\n"
            for path in sorted(self.folder.glob("Packages*"))
        )
        release = self.home / "Release"
        date = subprocess.run(
            ["date", "-Ru"], capture_output=True, text=True, check=True
        ).stdout.strip()
        release.write_text(
            f"Origin: NVIDIA\nLabel: an imitation\nArchitecture: amd64\nDate: {date}\n"
            f"SHA256:\n{hashes}"
        )
        gpg = ["gpg", f"--homedir={self.home}", "--batch", "--quiet", "--yes", "--passphrase="]
        run([*gpg, "--clearsign", f"--output={self.folder / 'InRelease'}", release])

    def close(self) -> None:
        """End the agent that gpg has started."""
        run(["gpgconf", f"--homedir={self.home}", "--kill", "all"])


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The folder on a loopback port, as a URL that ends in a slash."""
    with serving(functools.partial(Files, directory=str(folder))) as server:
        yield f"http://127.0.0.1:{server.server_port}/"


class Files(Quiet, http.server.SimpleHTTPRequestHandler):
    """The files of a folder."""
