"""How a server ends, and what it leaves behind."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

from tests.gpu import profile
from tests.gpu.record import record
from tests.gpu.server import Server

LEFT_ON_GPU_MIB = 2048
"""Less than this on a GPU is no server's: the driver's own and other small contexts."""


def killed(running: Server, role: str, case: str, wait_s: float = 60) -> dict[str, Any]:
    """SIGKILL one process by its title; what the unit would see, and what stays behind."""
    regions = running.regions()
    began = time.monotonic()
    running.kill(role)
    status = running.wait(wait_s)
    seen = {"exit_status": status, "main_ended_after_s": time.monotonic() - began}
    seen |= left_behind(running, regions)
    record(case, **seen)
    for each in regions:  # a deployed server's are swept by its unit
        each.unlink(missing_ok=True)
    return seen


def stopped(running: Server, case: str) -> dict[str, Any]:
    """SIGTERM to the main process, as systemd sends it."""
    regions = running.regions()
    began = time.monotonic()
    status = running.stop()
    seen = {"exit_status": status, "main_ended_after_s": time.monotonic() - began}
    seen |= left_behind(running, regions)
    record(case, **seen)
    return seen


def left_behind(running: Server, regions: set[Path], patience_s: float = 20) -> dict[str, Any]:
    """Processes, GPU memory and offload regions `patience_s` after the main process, or sooner."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and (running.processes() or _gpu_mib() > LEFT_ON_GPU_MIB):
        time.sleep(0.5)
    return {
        "processes_left": sorted(running.processes().values()),
        "gpu_mib_left": _gpu_mib(),
        "regions": len(regions),
        "regions_left": sum(each.exists() for each in regions),
    }


def _gpu_mib() -> int:
    """The most that is in use on one of this test's GPUs."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    listing = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    return max(
        int(line) for index, line in enumerate(listing.split()) if index in profile.visible()
    )
