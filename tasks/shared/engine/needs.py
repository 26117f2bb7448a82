"""What a generation needs of the machine, for hostkit's gate before each start: pure functions."""

import math
from typing import TYPE_CHECKING, Any

from tasks.shared.engine import serving, start_limit

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

MIB = 1024**2

_RANK_SHM = 256 * MIB
"""What vLLM's ranks exchange through /dev/shm: ten chunks of 16 MiB, NCCL's buffers, headroom."""
_OPEN_FILES = 8192
"""A process has 1024 by default: too few for connections, shards and the SSD tier's threads."""


def needs(settings: "Settings") -> dict[str, Any]:
    """Bytes, counts and folders, by the names that hostkit/generation/resources.py reads."""
    s = settings
    ram_tier = math.floor(s.kv_ram_gib * serving.GIB)
    found: dict[str, Any] = {
        "wait_s": s.gate_wait_s,
        "shm_bytes": ram_tier + s.gpus * _RANK_SHM,
        "open_files": _OPEN_FILES,
        # The RAM tier is pinned as a whole.
        "locked_bytes": ram_tier,
    }
    if s.accelerator == "cuda":
        found["gpus"] = s.gpus
        found["gpu_memory_utilization"] = s.gpu_memory_utilization or s.safe_utilization
    if s.kv_ssd_gb:
        found["kv_dir"] = serving.kv_dir(s)
    return found


def limit(settings: "Settings") -> dict[str, int]:
    """The unit's start limit, for hostkit's own count of the starts."""
    return {
        "burst": settings.start_limit_burst,
        "interval_s": start_limit.interval_s(settings),
        "delay_s": settings.restart_delay_s + settings.gate_wait_s,
    }
