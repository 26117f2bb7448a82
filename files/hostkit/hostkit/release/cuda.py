"""The CUDA toolkit on the host: the key of its repository, and a compile that proves it."""

import argparse
import http.client
import os
import re
import ssl
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from hostkit.host import process
from hostkit.host.process import Failure
from hostkit.release import openpgp

_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_LARGEST_KEY = 1 << 20
_TIMEOUT_S = 60

# The host half includes the C library's own headers, where toolkit and glibc may disagree.
_PROGRAM = """
#include <cuda_runtime.h>
#include <cmath>
__global__ void scale(float *data, float by) { data[threadIdx.x] *= rsqrtf(by); }
int main() { scale<<<1, 32>>>(nullptr, 2.0f); return static_cast<int>(std::sqrt(0.0)); }
"""


def register(subparsers: Any) -> None:
    trust = subparsers.add_parser("trust-key", help="fetch a repository's key, check whose it is")
    trust.add_argument("repository", help="URL of the repository; the key lies in it")
    trust.add_argument("fingerprint")
    trust.add_argument("keyring", type=Path)
    trust.set_defaults(run=_trust, fetches=True)
    check = subparsers.add_parser("check-cuda", help="compile a kernel with the CUDA toolkit")
    check.add_argument("home", type=Path)
    check.add_argument("version")
    check.add_argument("architecture")
    check.set_defaults(run=lambda args: compiles(args.home, args.version, args.architecture))


def _trust(args: argparse.Namespace) -> int:
    trust_key(args.repository, args.fingerprint, args.keyring)
    return 0


def trust_key(repository: str, fingerprint: str, keyring: Path) -> None:
    """Write the keyring with exactly the key of this fingerprint, fetched from the repository.

    NVIDIA names the file by the last eight digits, in lower case for one key and in upper case for
    the other. Raises Failure, with nothing written, when it is another key or more than one.
    """
    content = _fetched(repository, fingerprint[-8:])
    try:
        found = openpgp.fingerprints(content)
        binary = openpgp.dearmored(content)
    except ValueError as error:
        raise Failure(f"the key of {repository}: {error}") from None
    if found != [fingerprint]:
        raise Failure(
            f"the key of {repository} is {', '.join(found) or 'none'}, expected {fingerprint}: "
            "nothing is installed from there"
        )
    _write(keyring, binary)


def _fetched(repository: str, name: str) -> bytes:
    context = ssl.create_default_context(
        cafile=_CERTIFICATES if os.path.exists(_CERTIFICATES) else None
    )
    reason = ""
    for spelled in (name.lower(), name.upper()):
        url = f"{repository}{spelled}.pub"
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_S, context=context) as response:
                return bytes(response.read(_LARGEST_KEY))
        except (OSError, http.client.HTTPException) as error:
            reason = f"{url}: {error}"
    raise Failure(f"cannot fetch the key of the CUDA repository: {reason}")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f"{path.name}.new")
    staged.write_bytes(content)
    staged.chmod(0o644)
    os.replace(staged, path)


def compiles(home: Path, version: str, architecture: str) -> int:
    """Compile a kernel and its host half; Failure with the compiler's reason. Needs no GPU."""
    nvcc = home / "bin/nvcc"
    if not nvcc.is_file():
        raise Failure(f"there is no {nvcc}: install the toolkit of CUDA {version}")
    said = process.run([nvcc, "--version"], "nvcc")
    release = re.search(r"release (\d+\.\d+)", said)
    if not release or release[1] != version:
        found = release[1] if release else "of an unknown version"
        raise Failure(f"{nvcc} is {found}, expected {version}: torch is built with that")
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "check.cu"), Path(folder, "check.o")
        source.write_text(_PROGRAM)
        code = f"arch={architecture.replace('sm_', 'compute_')},code={architecture}"
        command: list[str | Path] = [
            nvcc,
            "-std=c++17",
            "-gencode",
            code,
            "-c",
            source,
            "-o",
            built,
        ]
        process.run(command, f"{nvcc} does not compile for {architecture}", env=_environment())
        content = built.read_bytes()
        if not content.startswith(b"\x7fELF") or architecture.encode() not in content:
            raise Failure(f"{nvcc} made no code for {architecture}")
    print(f"nvcc {version} compiles for {architecture}")
    return 0


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "HOME": tempfile.gettempdir()}
