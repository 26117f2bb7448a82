"""FlashInfer's modules, compiled into a release's cache before anything is switched to it.

The server would compile them at its first start, while nothing serves: `sampling` alone takes two
minutes on a fast machine. One that cannot be built here is built there, so that is no failure.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from hostkit.host.jobs import progress
from hostkit.host.process import Failure, run
from hostkit.host.serviceuser import identity
from hostkit.release import compilers

MODULES = ("flashinfer.jit.sampling:gen_sampling_module",)

_BUILD = """
import importlib, sys
module, _, maker = sys.argv[1].partition(":")
spec = getattr(importlib.import_module(module), maker)()
if not spec.is_compiled:
    spec.build(verbose=False)
"""


def build(venv: Path, cache: Path, arch_list: str, jobs: int) -> dict[str, str]:
    """Compile every module as the service's user; returns how each ended."""
    if not (compilers.CUDA_HOME / "bin/nvcc").is_file():
        return dict.fromkeys(MODULES, f"not built: no nvcc in {compilers.CUDA_HOME}")
    outcomes = {}
    for module in MODULES:
        progress(f"jit: {module}")
        outcomes[module] = _build_one(module, venv, environment(venv, cache, arch_list, jobs))
        progress(f"jit: {module}: {outcomes[module]}")
    return outcomes


def environment(venv: Path, cache: Path, arch_list: str, jobs: int) -> dict[str, str]:
    """What decides where a module lies and how it is built: the same as in the server's own."""
    cuda = compilers.CUDA_HOME
    return {
        "PATH": f"{venv}/bin:{cuda}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(cache),
        "CUDA_HOME": str(cuda),
        "FLASHINFER_WORKSPACE_BASE": str(cache),
        "FLASHINFER_CUDA_ARCH_LIST": arch_list.replace(";", " "),
        "MAX_JOBS": str(jobs),
        "NVCC_THREADS": "1",
        "LC_ALL": "C.UTF-8",
    }


def _build_one(module: str, venv: Path, env: Mapping[str, str]) -> str:
    command: list[str | Path] = [venv / "bin/python", "-IB", "-c", _BUILD, module]
    try:
        # What it compiles must be the service's own: it could not add to it otherwise.
        run(command, "not built", env=env, cwd="/", stderr=subprocess.STDOUT, **identity())
    except Failure as failure:
        return str(failure)
    return "built"
