"""What compiles vLLM: is it there, and does it fit torch and the GPUs?"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostkit.host import gpus, paths
from hostkit.host.process import Failure, run
from hostkit.release import inputs

CUDA_HOME = paths.ROOT / "usr/local/cuda-13.0"
_RELEASE = re.compile(r"release (\d+)\.(\d+)")
_ARCHITECTURE = re.compile(r"(\d+)\.(\d+)[af]?(\+PTX)?")
_SM120 = (12, 8)


@dataclass(frozen=True)
class Toolchain:
    """What a build is told of its compilers, and their versions for the manifest."""

    environment: Mapping[str, str]
    path: tuple[str, ...]
    versions: Mapping[str, str]


def find(spec: inputs.Spec, venv: Path) -> Toolchain:
    """The compilers for a release. Failure says what is missing or does not fit."""
    versions = {"gcc": _first_line(["gcc", "--version"], "gcc: apt-get install gcc g++")}
    if spec.target_device != "cuda":
        return Toolchain({}, (), versions)
    nvcc = CUDA_HOME / "bin/nvcc"
    if not nvcc.is_file():
        raise Failure(f"{nvcc}: no such file: the CUDA toolkit is needed to compile vLLM")
    said = run([nvcc, "--version"], "nvcc --version")
    torch = run([venv / "bin/python", "-c", _TORCH_CUDA], "ask torch for its CUDA").strip()
    found = capabilities()
    problems = judge(said, torch, spec.cuda_arch_list, found)
    if problems:
        raise Failure("; ".join(problems))
    environment = {"CUDA_HOME": str(CUDA_HOME), "TORCH_CUDA_ARCH_LIST": spec.cuda_arch_list}
    versions |= {"nvcc": _nvcc_release(said), "torch_cuda": torch, "gpus": ", ".join(found)}
    return Toolchain(environment, (str(CUDA_HOME / "bin"),), versions)


_TORCH_CUDA = "import torch; print(torch.version.cuda)"


def judge(nvcc_says: str, torch_cuda: str, arch_list: str, gpus: Sequence[str]) -> list[str]:
    """What does not fit; empty when all does. `gpus` are compute capabilities, "12.0"."""
    release = _RELEASE.search(nvcc_says)
    if not release:
        return ["nvcc --version names no release"]
    nvcc = (int(release[1]), int(release[2]))
    problems = []
    if torch_cuda.split(".")[0] != release[1]:
        problems.append(f"nvcc is of CUDA {nvcc[0]}.{nvcc[1]}, the release's torch of {torch_cuda}")
    listed = [match[0] for match in _ARCHITECTURE.finditer(arch_list)]
    bare = {re.match(r"[\d.]+", each)[0] for each in listed}  # type: ignore[index]
    if any(each.startswith("12.") for each in bare) and nvcc < _SM120:
        problems.append(f"CUDA {nvcc[0]}.{nvcc[1]} does not know 12.0: 12.8 is needed at least")
    lacking = sorted({gpu for gpu in gpus if gpu not in bare})
    if lacking:
        wanted = ";".join(sorted({*gpus}))
        problems.append(
            f"cuda_arch_list is {arch_list}, and a GPU here is of {', '.join(lacking)}: "
            f'set cuda_arch_list = "{wanted}"'
        )
    return problems


def capabilities() -> list[str]:
    """The compute capability of every GPU; empty when there is no driver to ask."""
    try:
        said = gpus.smi("--query-gpu=compute_cap", "--format=csv,noheader")
    except gpus.Unreadable:
        return []
    return [line.strip() for line in said.splitlines() if line.strip()]


def _nvcc_release(text: str) -> str:
    found = _RELEASE.search(text)
    return f"{found[1]}.{found[2]}" if found else "unknown"


def _first_line(command: Sequence[str], what: str) -> str:
    return run(command, what).splitlines()[0]
