"""Upgrades of the stand-in for vLLM: to a new release, and back by themselves when that fails."""

import re
import signal
import subprocess
import zlib

import pytest

from . import deploys
from .switching import remains, serving, starts, switch, variant

UPSTREAM = ("--data", "prefill_order=upstream")
NEWER = ("--data", "vllm_version=0.32.0", *UPSTREAM, "--data", "max_num_seqs=3")


@pytest.fixture(scope="module")
def good(standin_host):
    """The generation that the host serves, known to answer well."""
    number = deploys.hostkit_state(standin_host)["running"]
    code, said = switch(standin_host, number, "--force", "--quality")
    assert code == 0, said
    return number


@pytest.fixture
def host(standin_host, good):
    """The stand-in's host, serving that generation before and afterwards."""
    yield standin_host
    if deploys.hostkit_state(standin_host)["running"] != good:
        code, said = switch(standin_host, good, "--force")
        assert code == 0, said


def upgrade(host, *arguments):
    return deploys.pyinfra("tasks/upgrade_vllm.py", *arguments, host=host)


def test_an_upgrade_is_planned_agreed_upon_carried_out_and_rolled_back(host, good):
    planned = upgrade(host, "--dry", *NEWER)
    assert planned.returncode == 0, planned.stderr
    for line in (
        "vLLM: 0.31.0 -> 0.32.0",
        "flags: + max-num-seqs: 3",
        "expected downtime:",
    ):
        assert line in planned.stderr, line
    (agreed,) = re.findall(r"Plan ([0-9a-f]{12}):", planned.stderr)

    stale = upgrade(host, "-y", *NEWER, "--data", "max_num_seqs=2", "--data", f"plan={agreed}")
    assert stale.returncode == 1
    assert f"now and not {agreed}: something has changed since" in stale.stderr
    assert serving(host) == good

    done = upgrade(host, "-y", *NEWER, "--data", f"plan={agreed}")
    assert done.returncode == 0, done.stderr
    assert "s without a server" in done.stderr
    assert "quality 38%, computed" in done.stderr
    newer = deploys.hostkit_state(host)["running"]
    assert newer > good
    assert '"0.32.0+' in deploys.request(host, "/version")[1]
    again = upgrade(host, "-y", *NEWER)
    assert "is the one that serves" in again.stderr or again.returncode == 0
    assert deploys.hostkit_state(host)["previous"] == good

    back = deploys.pyinfra("tasks/rollback_vllm.py", "-y", host=host)
    assert back.returncode == 0, back.stderr
    assert serving(host) == good
    assert '"0.31.0+' in deploys.request(host, "/version")[1]
    # The newer release, with its caches, lies there as it was, and serves again when it is named.
    assert deploys.on_host("ls -d /opt/vllm/releases/0.32.0-*/cache", host=host)
    named = deploys.pyinfra(
        "tasks/rollback_vllm.py", "-y", "--data", f"rollback_to={newer}", host=host
    )
    assert named.returncode == 0, named.stderr
    assert serving(host) == newer
    assert '"0.32.0+' in deploys.request(host, "/version")[1]
    assert "max-num-seqs: 3" in deploys.on_host("cat /opt/vllm/current/serve.yaml", host=host)


def test_a_release_that_cannot_be_imported_never_gets_to_the_server(host, good):
    before = deploys.hostkit_state(host)
    done = upgrade(host, "-y", "--data", "vllm_version=0.33.0", *UPSTREAM)
    assert done.returncode == 1
    assert "No module named 'a_dependency_that_nobody_has'" in done.stderr
    assert "Traceback" not in done.stderr
    after = deploys.hostkit_state(host)
    assert (after["invocation"], after["current"]) == (before["invocation"], before["current"])


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("exit", "the stand-in was told to fail"),
        ("exit-late", "the stand-in was told to fail"),
        ("never-ready", "not ready after 8 s, while"),
        ("nonsense", "a completion of 4 tokens came back with 0"),
        ("wrong", "0% of the quality check's answers are right, 38% were before"),
    ],
)
def test_a_generation_that_fails_ends_on_the_one_before(host, good, fault, cause):
    number = variant(host, good, STANDIN_FAULT=fault)
    code, said = switch(host, number, "--go-back", "--quality")
    assert code == 1
    last = said.splitlines()[-1]
    assert f"generation {number} failed and generation {good} serves again, after" in last
    assert cause in last
    assert serving(host) == good
    found = deploys.hostkit_state(host)
    assert (found["current"], str(number) in found["generations"]) == (good, True)
    assert starts(host, number) == 1
    assert remains(host) == ""


def test_a_generation_whose_restored_kv_is_wrong_ends_on_the_one_before(host, good):
    tier = {"type": "fs", "root_dir": "/var/lib/vllm/home/kv/000000000000"}
    extra = {"cpu_bytes_to_use": 2**26, "secondary_tiers": [tier]}
    flags = {"kv-transfer-config": {"kv_connector_extra_config": extra}}
    sound = variant(host, good, flags)
    code, said = switch(host, sound, "--quality")
    assert code == 0, said
    assert "pushing it out of the GPU and of RAM" in said
    restored = (
        r"quality 38% computed, 38% with [1-9][\d,]* tokens restored, [\d.]+ MB of it from SSD"
    )
    assert re.search(restored, said), said
    assert "warning" not in said
    number = variant(host, sound, STANDIN_FAULT="bad-restore")
    code, said = switch(host, number, "--go-back", "--quality")
    assert code == 1
    last = said.splitlines()[-1]
    assert f"generation {number} failed and generation {sound} serves again, after" in last
    assert "answers from restored KV are worse: 0% right, 38% computed" in last
    assert serving(host) == sound


def test_a_generation_that_is_slower_than_the_gate_allows_ends_on_the_one_before(host, good):
    usual = variant(host, good, STANDIN_TOKEN_S="0.003")
    assert switch(host, usual)[0] == 0
    slow = variant(host, usual, STANDIN_TOKEN_S="0.012")
    code, said = switch(host, slow, "--go-back", "--bench-gate", "50")
    assert code == 1
    last = said.splitlines()[-1]
    assert f"generation {slow} failed and generation {usual} serves again, after" in last
    assert re.search(
        r": [5-9]\d\.\d % slower \([\d.]+ tokens/s, [\d.]+ before\); bench_gate allows 50 %", last
    )
    assert serving(host) == usual
    assert remains(host) == ""
    # The twin: as fast as before.
    same = variant(host, usual)
    code, said = switch(host, same, "--go-back", "--bench-gate", "50")
    assert code == 0, said
    assert re.search(r"speed [\d.]+ tokens/s, [\d.]+ before, [\d.]+ %", said)
    assert serving(host) == same


def test_a_way_back_is_never_refused_by_the_start_limit(host, good):
    """A restart and two failing upgrades at once: six starts where three are allowed."""
    assert switch(host, good)[0] == 0
    for _ in range(2):
        number = variant(host, good, STANDIN_FAULT="exit")
        assert switch(host, number, "--go-back")[0] == 1
        assert serving(host) == good
    used = deploys.on_host(
        "journalctl -u vllm -o cat --since=-53s | grep -c '^hostkit: generation'", host=host
    )
    assert int(used) >= 5


def campaign(step):
    return pytest.param(step, marks=pytest.mark.campaign)


@pytest.mark.parametrize(
    "step",
    [
        campaign("start limit: "),
        "stopping: ",
        "importing vLLM|starting|serving",
        campaign("asking for a completion"),
        campaign("generation \\d+ answers after"),
        "warming up",
        campaign("quality check: "),
        campaign("KV pool "),
    ],
)
def test_an_upgrade_ends_by_itself_when_the_connection_is_cut(host, good, step):
    """The control machine's process is killed as this step of the switch is shown."""
    mark = str(1 + zlib.crc32(step.encode()) % 1000 / 1000)
    run = subprocess.Popen(
        [
            *(*deploys.PYINFRA, "tasks/upgrade_vllm.py", "-y"),
            *("--data", f'extra_env={{"STANDIN_START_S": "{mark}"}}'),
        ],
        cwd=deploys.checkout(host),
        env=deploys.environment(host),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stderr
    said = next((line for line in run.stderr if re.search(rf" s  ({step})", line)), None)
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stderr.close()
    assert said, step
    deploys.on_host(
        "while systemctl list-units --no-legend 'vllm-job-switch-*' | grep -q .; "
        "do sleep 0.2; done",
        host=host,
    )
    env = deploys.on_host(f"cat /opt/vllm/generations/{serving(host)}/vllm.env", host=host)
    assert f'STANDIN_START_S="{mark}"' in env
    assert remains(host) == ""


@pytest.mark.parametrize(
    ("to", "told"),
    [
        ("99", "there is no generation 99: name one that has served: --data rollback_to=N, of ["),
        ("bad", "has never served"),
    ],
)
def test_a_way_back_to_what_never_served_is_refused(host, good, to, told):
    number = variant(host, good, STANDIN_FAULT="exit") if to == "bad" else to
    done = deploys.pyinfra(
        "tasks/rollback_vllm.py", "-y", "--data", f"rollback_to={number}", host=host
    )
    assert done.returncode == 1
    assert told in done.stderr
    assert serving(host) == good
