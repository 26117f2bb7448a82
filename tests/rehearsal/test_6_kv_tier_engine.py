"""vLLM's own KV tiers read and write while the SSD tier is pruned."""

import json
from pathlib import Path

import pytest

from tests.unit.kv_tier import UNUSED

from . import deploys

KV = "/var/lib/vllm/kv"
LIMITS = "/etc/vllm/kv-tier.json"


@pytest.fixture(scope="module")
def beside(deployed):
    """What vLLM's own tiers found while they were pruned: see fs_tier.py."""
    script = (Path(__file__).parent / "scripts/fs_tier.py").read_text()
    deploys.on_host("cat >/srv/fs_tier.py", host=deployed, stdin=script)
    deploys.on_host(f"mkdir -p {KV} && touch {KV}/.vllm-kv-tier", host=deployed)
    told = {"folder": KV, "quota_bytes": 2_700_000, "min_free_bytes": 0}
    deploys.on_host(f"cat >{LIMITS}", host=deployed, stdin=json.dumps(told))
    python = "/opt/vllm/current/release/venv/bin/python -IB"
    prune = "python3 -IB /opt/vllm/hostkit prune"
    try:
        output = deploys.on_host(f"{python} /srv/fs_tier.py {KV}/{UNUSED} 5 {prune}", host=deployed)
    finally:
        deploys.on_host(f"rm -rf {KV} {LIMITS} /srv/fs_tier.py", host=deployed)
    return json.loads(output.splitlines()[-1])


def test_vllms_own_tiers_never_see_more_than_a_miss_while_they_are_pruned(beside):
    found = beside["race"]
    assert found["wrong"] == 0
    assert found["hits"] > 20
    assert found["misses"] > 20
    removed = [line for line in found["said"] if "removed nothing" not in line]
    assert len(removed) >= 2
    assert all(line.startswith("hostkit: SSD tier: removed ") for line in found["said"])
    assert "empty folders" in "".join(removed)


def test_the_oldest_block_that_vllm_reads_again_survives_and_without_the_patch_it_goes(beside):
    assert beside["use"]["found"] == [0, 5, 6, 7, 8, 9]
    assert "least recently used first" in beside["use"]["said"]
    assert beside["use untouched"]["found"] == [4, 5, 6, 7, 8, 9]
