"""The SSD tier is kept within its limits: by the timer and before a start."""

import json
import re
import time

import pytest

from tests.unit.kv_tier import LAYOUT, UNUSED

from . import deploys, switching
from .host import state

KV = "/var/lib/vllm/kv"
LIMITS = "/etc/vllm/kv-tier.json"
TIER = ("--data", "kv_ssd_gb=1", "--data", "kv_ram_gib=0.5", "--data", "kv_min_free_gb=0")
CHUNK = 64 * 1024
ON = "tasks/storage.py"


def limits(host, quota):
    told = {"folder": KV, "quota_bytes": quota, "min_free_bytes": 0}
    deploys.on_host(f"cat >{LIMITS}", host=host, stdin=json.dumps(told))


def forget_tiers(host):
    """Let no generation be one to go back to that had an SSD tier: its limits would stay."""
    for number, each in deploys.hostkit_state(host)["generations"].items():
        if each["ssd_tier"]:
            deploys.on_host(f"rm -f /opt/vllm/generations/{number}/verified", host=host)


@pytest.fixture
def tier(standin_host):
    """The stand-in's host with an SSD tier, which the stand-in does not use."""
    assert deploys.deploy_json(*TIER, host=standin_host, file=ON).success > 0
    yield standin_host
    deploys.on_host(f"umount -q {KV}/{UNUSED}/m_r0/mounted; rm -rf {KV}", host=standin_host)
    forget_tiers(standin_host)
    assert deploys.deploy_json(host=standin_host, file=ON).success > 0


def block(host, name):
    """A block as the server writes it: readable for the service only."""
    file = f"{KV}/{LAYOUT.format(fingerprint=UNUSED, name=name)}"
    below, _, _ = file.rpartition("/")
    command = f"umask 077; mkdir -p {below} && head -c 1000 /dev/zero >{file}"
    deploys.on_host(f"chown -R vllm: {KV} && runuser -u vllm -- sh -c '{command}'", host=host)
    return file


@pytest.fixture
def gone_back_to(tier):
    """A generation that has served with an SSD tier."""
    usual = deploys.hostkit_state(tier)["current"]
    flags = {"kv-transfer-config": {"secondary_tiers": [{"type": "fs"}]}}
    number = switching.variant(tier, usual, flags)
    deploys.on_host(f"touch /opt/vllm/generations/{number}/verified", host=tier)
    yield number
    deploys.on_host(f"rm -r /opt/vllm/generations/{number}", host=tier)


def test_the_limits_stay_as_long_as_a_rollback_may_bring_an_ssd_tier_back(tier, gone_back_to):
    """Nothing else would keep it from filling the disk."""
    assert deploys.deploy_json(host=tier, file=ON).success == 0
    assert deploys.on_host("systemctl is-active vllm-kv-prune.timer", host=tier) == "active"
    assert deploys.on_host(f"cat {LIMITS}", host=tier)
    done = deploys.pyinfra("tasks/doctor.py", host=tier)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "vllm-kv-prune" not in done.stderr


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


# Eight clients at once; prints how often each status came, and the first answer that was no 200.
CLIENTS = """
import collections, json, sys, threading, urllib.error, urllib.request
url, key = json.load(sys.stdin)
body = json.dumps({"model": "standin", "prompt": "1", "max_tokens": 1}).encode()
found, bad = collections.Counter(), []
def client():
    for _ in range(150):
        request = urllib.request.Request(url, body, {"Authorization": "Bearer " + key})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                found[answer.status] += 1
        except urllib.error.HTTPError as error:
            found[error.code] += 1
            bad.append(error.read().decode())
clients = [threading.Thread(target=client) for _ in range(8)]
for each in clients: each.start()
for each in clients: each.join()
print(json.dumps([found, bad[:1]]))
"""


def test_clients_see_no_error_while_what_they_read_is_pruned(tier):
    """The tier is imitated (standin/blocks.py); vLLM's own runs in test_6_kv_tier_engine.py."""
    current = deploys.hostkit_state(tier)["current"]
    # A RAM tier that this container lets it pin.
    done = deploys.pyinfra("deploy.py", "-y", *TIER, "--data", "kv_ram_gib=0.004", host=tier)
    assert done.returncode == 0, done.stderr
    staged = max(map(int, deploys.hostkit_state(tier)["generations"]))
    try:
        assert switching.switch(tier, staged, "--force")[0] == 0
        limits(tier, 100 * 4096)
        deploys.on_host("cat >/srv/clients.py", host=tier, stdin=CLIENTS)
        prune = "while :; do python3 -IB /opt/vllm/hostkit prune >>/srv/pruned; done"
        deploys.on_host(
            f"rm -f /srv/pruned; systemd-run -q --collect --unit=pruner sh -c '{prune}'", host=tier
        )
        url = f"http://127.0.0.1:{state.load(tier).api_port}/v1/completions"
        told = json.dumps([url, deploys.api_key(tier)])
        answers, bad = json.loads(deploys.on_host("python3 /srv/clients.py", host=tier, stdin=told))
        assert (answers, bad) == ({"200": 1200}, [])
        told = deploys.request(tier, "/metrics")[1]
        hits, misses = map(int, re.findall(r"standin:block_(?:hits|misses) (\d+)", told))
        assert hits > 50
        assert misses > 50
        assert deploys.on_host("grep -c 'removed [1-9]' /srv/pruned", host=tier) != "0"
    finally:
        deploys.on_host(
            "systemctl stop pruner 2>/dev/null; rm -f /srv/clients.py /srv/pruned", host=tier
        )
        assert switching.switch(tier, current, "--force")[0] == 0


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
