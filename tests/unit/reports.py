"""What hostkit's doctor says of a healthy host, and what the repository makes of it."""

import copy
from dataclasses import replace
from typing import Any

from tasks.shared.facts.doctor import Report
from tasks.shared.health.wanted import Wanted

RELEASE = "0.31.0-0123456789ab"
SERVE = "serve --config /opt/vllm/generations/3/serve.yaml"
COMMAND = f"/opt/vllm/releases/{RELEASE}/venv/bin/python /opt/vllm/releases/{RELEASE}/venv/bin/vllm"
UNITS = {
    "vllm-guard.service": "g",
    "vllm-settle.service": "s",
    "vllm-watch.service": "ws",
    "vllm-watch.timer": "wt",
    "vllm-kv-prune.service": "ps",
    "vllm-kv-prune.timer": "pt",
}
NOW = 1_796_000_000.0

_ON = {"active": "active", "enabled": "enabled", "result": "success"}
_TRIGGERED = {"active": "inactive", "enabled": "static", "result": "success"}

HEALTHY: dict[str, Any] = {
    "generation": 3,
    "state": {
        "active": "active",
        "sub": "running",
        "running": 3,
        "answering": True,
        "current": 3,
        "previous": 2,
        "unit_in_force": True,
        "highest": 3,
        "generations": {
            2: {"digest": "two", "verified": True},
            3: {"digest": "three", "verified": True},
        },
    },
    "units": {"vllm.service": {**_ON, "sha256": "u"}}
    | {
        name: {**(_TRIGGERED if name in ("vllm-watch.service", "vllm-kv-prune.service") else _ON)}
        | {"sha256": digest}
        for name, digest in UNITS.items()
    }
    | {"vllm-settle.service": {**_ON, "active": "inactive", "sha256": "s"}},
    "files": {
        "/etc/vllm/secrets.env": {"owner": "root", "mode": "600", "sha256": ""},
        "/etc/vllm/kv-tier.json": {"owner": "root", "mode": "644", "sha256": "limits"},
    },
    "hostkit": "kit",
    "kept": [],
    "good": {"versions": {"kernel": "6.6.114.1", "wsl": "2.7.0.0", "driver": "581.80"}},
    "versions": {"kernel": "6.6.114.1", "wsl": "2.7.0.0", "driver": "581.80"},
    "shm": [],
    "orphans": [],
    "tier": {
        "now": NOW,
        "figures": {
            "vllm_kv_tier_bytes": 120e9,
            "vllm_kv_tier_quota_bytes": 150e9,
            "vllm_kv_tier_free_bytes": 300e9,
            "vllm_kv_tier_min_free_bytes": 20e9,
            "vllm_kv_tier_last_prune_timestamp_seconds": NOW - 600,
        },
    },
    "names": {"hosts": ["gpu-box"], "users": ["me"]},
    "note": {"release": RELEASE},
    "edited": [],
    "release": {
        "name": RELEASE,
        "damage": None,
        "altered": [],
        "gone": [],
        "unlisted": [],
        "loaded": 412,
        "patches": {"0001-a.patch": "applied"},
        "installed_version": "0.31.0+patched.0123456789ab",
    },
    "model": {"folder": "/var/lib/vllm/models/m", "problems": [], "same": True},
    "starts": {
        "ago_s": [4000],
        "burst": 3,
        "window_s": 6300.0,
        "slowest_s": 0.0,
        "unreachable": "",
    },
    "process": {"pid": 7, "command": f"{COMMAND} {SERVE}", "environment": []},
    "version": "0.31.0+patched.0123456789ab",
    "metrics": [
        'vllm:kv_offload_store_bytes_total{engine="0",model_name="m"} 8e+09',
        'vllm:kv_offload_load_bytes_total{engine="0",model_name="m"} 2e+09',
        'vllm:external_prefix_cache_queries_total{engine="0",model_name="m"} 300000.0',
        'vllm:external_prefix_cache_hits_total{engine="0",model_name="m"} 90000.0',
        'vllm:kv_offload_tiering_chunk_hits_total{engine="0",model_name="m",tier="1:fs"} 9.0',
        'vllm:kv_offload_tiering_read_bytes_total{engine="0",model_name="m",tier="1:fs"} 1e+09',
    ],
    "log": {"complete": True, "start": "KV pool 293,000 tokens"},
    "errors": {},
}

WANTED = Wanted(
    digest="three",
    changes=(),
    hostkit="kit",
    units=UNITS,
    limits="limits",
    key_matches=True,
    prune_minutes=15,
)


REMOVED = object()


def changed(**changes: Any) -> Report:
    """The healthy host with something else about it.

    A mapping is merged, what is REMOVED goes, any other value is replaced.
    """
    found = copy.deepcopy(HEALTHY)
    for key, value in changes.items():
        _change(found, key, value)
    return Report.model_validate(found)


def _change(found: dict[Any, Any], key: Any, value: Any) -> None:
    if isinstance(value, dict) and isinstance(found.get(key), dict):
        for name, each in value.items():
            _change(found[key], name, each)
    elif value is REMOVED:
        del found[key]
    else:
        found[key] = value


def wanting(**changes: Any) -> Wanted:
    return replace(WANTED, **changes)
