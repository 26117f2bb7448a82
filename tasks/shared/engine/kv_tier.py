"""What hostkit is told of the SSD tier: pure functions."""

import json
from typing import TYPE_CHECKING

from tasks.shared.engine import serving

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

LIMITS = "/etc/vllm/kv-tier.json"
GB = 10**9


def marker(settings: "Settings") -> str:
    """The file without which nothing is ever removed below the tier's folder."""
    return f"{serving.kv_dir(settings)}/.vllm-kv-tier"


def limits(settings: "Settings") -> str:
    """The text of `LIMITS`: folder and bytes."""
    found = {
        "folder": serving.kv_dir(settings),
        "quota_bytes": settings.kv_ssd_gb * GB,
        "min_free_bytes": settings.kv_min_free_gb * GB,
    }
    return json.dumps(found, indent=2) + "\n"
