"""The production profile as this machine can run it: rendered by the deploy's own functions.

`DIFFERENT` and `for_machine` name all that is not as in group_data/all.py.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tasks.shared.engine import formats, serving
from tasks.shared.settings import Settings

REPOSITORY = Path(__file__).parents[2]
SCRATCH = Path(os.environ.get("GPU_SCRATCH", "/tmp/vllm-gpu-tests"))
RESULTS = Path(os.environ.get("GPU_RESULTS", SCRATCH / "results"))
API_KEY = "gpu-tests"

DIFFERENT: dict[str, Any] = {
    "wsl2": False,
    "served_model_name": "random",
    "max_jobs": 16,  # no server beside this one that a compiler could starve
    "ready_timeout_s": 900,
    # FlashInfer's GDN prefill is what vLLM takes on sm_120 and is compiled at the first start.
    "extra_serve_args": {"load-format": "random", "gdn-prefill-backend": "triton"},
}
"""Settings of every test here that differ from production, beside those of the machine."""

_KEPT = (
    *("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "TMPDIR", "VLLM_LOGGING_LEVEL"),
    *("SSL_CERT_FILE", "NCCL_DEBUG"),
)
# A program that uses NVLink multicast can put GPUs that others share out of service.
_MULTICAST_OFF = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}


def settings(model: Path, port: int, **changes: Any) -> Settings:
    """The production settings with what must differ here, then `changes`, on top.

    `extra_serve_args` and `extra_env` of `changes` are added to those of `DIFFERENT`.
    """
    delivered = runpy.run_path(str(REPOSITORY / "group_data/all.py"))
    production = {key: value for key, value in delivered.items() if not key.startswith("__")}
    for_machine = {"model": f"host:{model}", "port": port, "gpu_memory_mib": gpu_memory_mib()}
    for key in ("extra_serve_args", "extra_env"):
        changes[key] = DIFFERENT.get(key, {}) | changes.get(key, {})
    for_machine["kv_ssd_dir"] = str(SCRATCH / "ssd")
    return Settings.model_validate(production | DIFFERENT | for_machine | changes)


@dataclass(frozen=True)
class Rendered:
    """What `vllm serve` is given: its configuration file's text and its whole environment."""

    config: dict[str, Any]
    environment: dict[str, str]

    @property
    def yaml(self) -> str:
        return formats.serve_yaml(self.config)


def render(s: Settings, kv_fingerprint: str = "gpu-tests") -> Rendered:
    """The deploy's own files for these settings, with paths that a test may write to."""
    rendered = serving.environment(s, release="gpu-tests")
    release = f"{serving.RELEASES_DIR}/gpu-tests"
    environment = {k: v.replace(release, str(SCRATCH)) for k, v in rendered.items()}
    environment["HOME"] = str(SCRATCH / "home")
    environment["VLLM_API_KEY"] = API_KEY
    cuda = serving.CUDA_HOME if Path(serving.CUDA_HOME).is_dir() else "/usr/local/cuda"
    if "CUDA_HOME" in environment:
        environment["CUDA_HOME"] = cuda
    environment["PATH"] = f"{Path(python()).parent}:{cuda}/bin:{os.environ['PATH']}"
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    # A release has the scheduler installed; a vLLM that was installed by hand has not.
    own = [str(Path(__file__).parent / "plugin"), str(REPOSITORY / "files/scheduler")]
    kept["PYTHONPATH"] = ":".join(filter(None, [*own, os.environ.get("VLLM_PYTHONPATH")]))
    return Rendered(serving.serve_config(s, kv_fingerprint), environment | kept | _MULTICAST_OFF)


@cache
def python() -> str:
    """The interpreter that has the patched vLLM: $VLLM_PYTHON, the deployed release's, or this.

    What of it lies elsewhere is on $VLLM_PYTHONPATH.
    """
    deployed = Path("/opt/vllm/current/release/venv/bin/python")
    chosen = os.environ.get("VLLM_PYTHON") or (str(deployed) if deployed.exists() else "")
    return shutil.which(chosen or sys.executable) or sys.executable


@cache
def gpus() -> list[tuple[str, int]]:
    """Name and MiB of each GPU that may be used here."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        listing = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return []
    found = [line.rsplit(",", 1) for line in listing.splitlines() if line.strip()]
    everything = [(name.strip(), int(mib)) for name, mib in found]
    return [gpu for index, gpu in enumerate(everything) if index in visible(len(everything))]


def visible(count: int = 64) -> set[int]:
    """The numbers of the GPUs that may be used here, of `count` in the machine."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return set(range(count)) if chosen is None else {int(i) for i in chosen.split(",") if i}


def gpu_memory_mib() -> int:
    """Of the smallest GPU; 81,920 where there is none, so that a profile can be rendered there."""
    return min((mib for _, mib in gpus()), default=81920)
