"""The SSD tier is kept within its limits: by the timer and before a start."""

import json
import time

import pytest

from tests.unit.kv_tier import LAYOUT, UNUSED

from . import deploys

KV = "/var/lib/vllm/kv"
LIMITS = "/etc/vllm/kv-tier.json"
TIER = ("--data", "kv_ssd_gb=1", "--data", "kv_ram_gib=0.5", "--data", "kv_min_free_gb=0")
CHUNK = 64 * 1024
ON = "tasks/storage.py"


def limits(host, quota):
    told = {"folder": KV, "quota_bytes": quota, "min_free_bytes": 0}
    deploys.on_host(f"cat >{LIMITS}", host=host, stdin=json.dumps(told))


@pytest.fixture
def tier(standin_host):
    """The stand-in's host with an SSD tier, which the stand-in does not use."""
    assert deploys.deploy_json(*TIER, host=standin_host, file=ON).success > 0
    yield standin_host
    deploys.on_host(f"umount -q {KV}/{UNUSED}/m_r0/mounted; rm -rf {KV}", host=standin_host)
    assert deploys.deploy_json(host=standin_host, file=ON).success > 0


def block(host, name):
    """A block as the server writes it: readable for the service only."""
    file = f"{KV}/{LAYOUT.format(fingerprint=UNUSED, name=name)}"
    below, _, _ = file.rpartition("/")
    command = f"umask 077; mkdir -p {below} && head -c 1000 /dev/zero >{file}"
    deploys.on_host(f"chown -R vllm: {KV} && runuser -u vllm -- sh -c '{command}'", host=host)
    return file


def test_the_timer_prunes_inside_its_sandbox(tier):
    assert deploys.deploy_json(*TIER, host=tier, file=ON).success == 0
    units = "vllm-kv-prune.timer vllm-kv-prune.service"
    assert deploys.on_host(f"systemd-analyze verify {units} 2>&1", host=tier) == ""
    assert deploys.on_host("systemctl is-active vllm-kv-prune.timer", host=tier) == "active"
    old, young = block(tier, "a" * 64), block(tier, "b" * 64)
    mounted = f"{KV}/{UNUSED}/m_r0/mounted"
    deploys.on_host(
        f"touch -d '2 days ago' {old}; mkdir -p {mounted}; mount -t tmpfs none {mounted}; "
        f"head -c 1000 /dev/zero >{mounted}/c.bin; touch -d '3 days ago' {mounted}/c.bin",
        host=tier,
    )
    limits(tier, 1500)
    deploys.on_host("systemctl start vllm-kv-prune.service", host=tier)
    found = deploys.on_host(f"find {KV} -name '*.bin'", host=tier).splitlines()
    assert sorted(found) == sorted([young, f"{mounted}/c.bin"])
    said = deploys.on_host("journalctl -u vllm-kv-prune -o cat --no-pager", host=tier)
    assert "hostkit: SSD tier: removed 1 blocks" in said
    shown = deploys.on_host("cat /var/lib/vllm/health/kv_tier.prom", host=tier)
    assert "\nvllm_kv_tier_bytes 1000\n" in shown


def test_without_a_tier_there_is_no_timer_and_it_says_so(standin_host):
    shown = "systemctl list-unit-files --no-legend | grep vllm-kv-prune || true"
    assert deploys.on_host(shown, host=standin_host) == ""
    said = deploys.on_host("python3 -IB /opt/vllm/hostkit prune", host=standin_host)
    assert said == "hostkit: SSD tier: there is none: kv_ssd_gb is 0"


def test_each_start_prunes_before_it(tier):
    old, young = block(tier, "a" * 64), block(tier, "b" * 64)
    deploys.on_host(f"touch -d '2 days ago' {old}", host=tier)
    limits(tier, 1500)
    deploys.on_host("systemctl restart vllm", host=tier)
    assert deploys.on_host(f"find {KV} -name '*.bin'", host=tier) == young
    said = deploys.on_host("journalctl -u vllm -o cat --no-pager -n 20", host=tier)
    assert "hostkit: SSD tier: removed 1 blocks" in said
    deadline = time.monotonic() + 60
    while not deploys.hostkit_state(tier)["answering"]:
        assert time.monotonic() < deadline
