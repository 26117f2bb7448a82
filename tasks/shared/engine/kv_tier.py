"""What hostkit is told of the SSD tier: pure functions."""

import json
from typing import TYPE_CHECKING

from tasks.shared.engine import serving

if TYPE_CHECKING:
    from tasks.shared.facts.hostkit import HostState
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


def still_limited(settings: "Settings", present: "HostState") -> bool:
    """Do the limits on the host stay, although these settings have no SSD tier?

    vLLM removes no file of it: one that serves, or is gone back to, would fill the disk.
    """
    unsure = present.unknown is not None
    return not settings.kv_ssd_gb and (unsure or bool(present.writes_to_ssd))
