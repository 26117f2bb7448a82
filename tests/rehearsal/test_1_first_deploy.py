"""From a host on which nothing has run to a model that answers; killed three times."""

import json
import re

import pytest

from . import deploys
from .host import state

KILLED_AT = ["Build release", "Stage the generation", "Ask the server for a completion"]

PATCHES = state.REPOSITORY / "files/patches/vllm-0.31.0"
SERIES = sorted(path.name for path in PATCHES.glob("*.patch"))

# Every text file that a deploy writes, as it is named in the plan.
NAMED = ["spec.json", "lock.txt", "wheel.txt", "tools.txt", *SERIES]
WRITTEN = [
    "/opt/vllm/hostkit/__main__.py",
    "/opt/vllm/hostkit/hostkit/generation/start.py",
    *NAMED,
    "generations/1/vllm.service",
    "generations/1/serve.yaml",
    "generations/1/vllm.env",
]
# A person reads the plan before saying yes to it.
MOST_LINES = 600


def changed_operations(host):
    done = deploys.pyinfra("deploy.py", "--dry", "--json", host=host)
    assert done.returncode == 0, done.stderr
    return [
        entry["name"] for entry in json.loads(done.stdout)["plan"] if entry["hosts_with_change"]
    ]


def test_a_dry_run_shows_everything_and_changes_nothing(fresh_host):
    before = deploys.snapshot(fresh_host)
    assert len(before["files"]) > 5000
    done = deploys.pyinfra("deploy.py", "--dry", "--diff", "-v", host=fresh_host)
    after = deploys.snapshot(fresh_host)

    assert done.returncode == 0, done.stderr
    for name in WRITTEN:
        assert re.search(rf"Will create \S*{re.escape(name)}\n", done.stderr), name
    assert not state.load(fresh_host).folder.joinpath("api_key").exists()
    for part in before:
        assert before[part] == after[part], part


def test_a_plan_can_be_read(fresh_host):
    done = deploys.pyinfra("deploy.py", "--dry", "--diff", host=fresh_host)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") < MOST_LINES
    assert re.search(
        r"Will create /opt/vllm/hostkit: \d+ files, \d+ lines; -v shows them", done.stderr
    )
    for name in NAMED:
        assert re.search(rf"^ +\S*{re.escape(name)}: \+\d+ -0$", done.stderr, re.MULTILINE), name
    assert "nothing to change\n" in done.stderr


def test_a_fresh_host_has_a_plan(fresh_host):
    plan = "\n".join(changed_operations(fresh_host))
    for operation in (
        "Install what builds and the server need",
        "Install hostkit",
        "Build release 0.31.0-",
        "Provide the model",
        "Write the API key",
        "Stage the generation",
        "Start the server",
        "Ask the server for a completion",
    ):
        assert operation in plan


@pytest.mark.parametrize("operation", KILLED_AT)
def test_a_killed_deploy_leaves_nothing_that_the_next_one_trips_over(fresh_host, operation):
    """What is asserted is the next test's: that the deploy after these ends well."""
    assert deploys.deploy_and_kill(fresh_host, deploys.at_operation(operation))


def test_the_deploy_ends_with_a_server_that_answers(deployed):
    assert "Paris" in deploys.ask("What is the capital of France?", host=deployed)


def test_the_second_deploy_changes_nothing(deployed):
    assert changed_operations(deployed) == []
    totals = deploys.deploy_json(host=deployed)
    assert (totals.changed, totals.error) == ((), 0)
    assert totals.no_change > 15


def test_the_killed_builds_left_nothing_behind(deployed):
    assert deploys.on_host("ls -A /opt/vllm/work 2>/dev/null", host=deployed, check=False) == ""
    assert len(deploys.on_host("ls /opt/vllm/releases", host=deployed).split()) == 1
    assert (
        deploys.on_host(
            "ls -d /opt/vllm/*/*.new /var/lib/vllm/models/*.new 2>/dev/null",
            host=deployed,
            check=False,
        )
        == ""
    )


def test_the_patch_is_in_what_serves(deployed):
    """Asked of the files that the running process has mapped, not of the manifest."""
    pid = deploys.on_host("systemctl show vllm -p MainPID --value", host=deployed)
    mapped = deploys.on_host(f"grep -o '/opt.*site-packages' /proc/{pid}/maps", host=deployed)
    (site,) = set(mapped.splitlines())
    source = deploys.on_host(f"cat {site}/vllm/v1/kv_offload/tiering/fs/io.py", host=deployed)
    assert "os.utime" in source
    manifest = deploys.on_host(f"cat {site.partition('/venv/')[0]}/manifest.json", host=deployed)
    states = {patch["name"]: patch["state"] for patch in json.loads(manifest)["patches"]}
    assert states == dict.fromkeys(SERIES, "applied")


def test_the_unit_is_understood_and_hardened(deployed):
    said = deploys.on_host("systemd-analyze verify vllm.service 2>&1", host=deployed)
    assert said == ""
    scores = deploys.on_host("systemd-analyze security --no-pager vllm.service", host=deployed)
    exposure = float(scores.splitlines()[-1].split("vllm.service:")[1].split()[0])
    assert exposure <= 2.0


def test_the_service_runs_as_its_own_user_without_power(deployed):
    pid = deploys.on_host("systemctl show vllm -p MainPID --value", host=deployed)
    status = deploys.on_host(f"cat /proc/{pid}/status", host=deployed)
    uid = deploys.on_host("id -u vllm", host=deployed)
    assert re.search(rf"^Uid:\s+{uid}\s+{uid}\s", status, re.MULTILINE)
    assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)
    assert "nologin" in deploys.on_host("getent passwd vllm", host=deployed)


def test_the_server_listens_on_loopback_only(deployed):
    port = f"{state.load(deployed).api_port:04X}"
    sockets = deploys.on_host("cat /proc/net/tcp /proc/net/tcp6", host=deployed).splitlines()
    local = [line.split()[1] for line in sockets if line.split()[3] == "0A"]
    assert [address for address in local if address.endswith(f":{port}")] == [f"0100007F:{port}"]
