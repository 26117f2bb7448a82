"""The source route on a host: a transient unit, its guard, its progress, and what ends it.

What is compiled is a stand-in for vLLM's sources, in an imitation of GitHub's repository.
"""

import json

import pytest

from . import deploys, memory
from .standin import source

BODY = {"model": "standin", "prompt": "1 2 3", "max_tokens": 4}
TASK = "tasks/build_vllm.py"


@pytest.fixture(scope="module")
def told(standin_host):
    """What makes a deploy take the source route."""
    where = source.give(standin_host)
    return ("--data", "build_route=source", "--data", f"vllm_source={where}")


@pytest.fixture(autouse=True)
def fresh(standin_host, told):
    """Nothing of an earlier build of that release is there; the server is as it was afterwards."""
    source.set_fault(standin_host, "")
    remove(standin_host)
    before = deploys.hostkit_state(standin_host)
    yield
    assert deploys.hostkit_state(standin_host) == before


def remove(host):
    kept = deploys.checkout(host) / "builds"
    for file in sorted(kept.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    deploys.on_host(
        "cd /opt/vllm; rm -rf build cache/built guard/build.json; "
        'for m in releases/*/manifest.json; do grep -q \'"route": "source"\' $m && '
        "rm -rf $(dirname $m); done; true",
        host=host,
    )


def build(host, told, *more):
    return deploys.pyinfra(TASK, "-y", *told, *more, host=host)


def manifest(host):
    return json.loads(
        deploys.on_host(
            'cd /opt/vllm/releases; cat $(grep -l \'"route": "source"\' */manifest.json)',
            host=host,
        )
    )


def compiled_steps(host):
    """The steps of all builds so far, out of the journal."""
    return deploys.on_host(
        "journalctl --output=cat --no-pager -u 'vllm-job-build-*' | grep -c Building", host=host
    )


def test_a_build_shows_its_steps_and_the_next_host_installs_without_compiling(standin_host, told):
    done = build(standin_host, told)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "MAX_JOBS=1; (" in done.stderr
    assert "step " in done.stderr
    assert "GiB of memory left" in done.stderr
    found = manifest(standin_host)
    assert found["source"]["url"] == f"file://{source.REPOSITORY}"
    assert found["built_by"]
    assert found["memory"]["least_available"] > 0
    assert build(standin_host, told).returncode == 0

    # The same host with all of it gone stands for another one of the same kind.
    before = compiled_steps(standin_host)
    deploys.on_host("cd /opt/vllm; rm -rf cache/built releases/" + found["name"], host=standin_host)
    again = build(standin_host, told)
    assert again.returncode == 0, again.stderr[-3000:]
    assert "compile: not needed" in again.stderr
    assert compiled_steps(standin_host) == before
    assert manifest(standin_host)["source"] == found["source"]


def test_a_build_that_eats_memory_is_stopped_while_the_server_answers(standin_host, told):
    memory.put_eater(standin_host, "/srv/eater/nvcc")
    source.set_fault(standin_host, "/srv/eater/nvcc")
    floor = memory.available_mib(standin_host) - 600
    with deploys.asking(standin_host, BODY) as answers:
        done = build(standin_host, told, "--data", f"memory_floor_mib={floor}")
    assert done.returncode == 1
    assert "stopped by the memory guard: " in done.stderr
    assert set(answers) == {200}
    assert deploys.on_host("pgrep nvcc; true", host=standin_host) == ""

    source.set_fault(standin_host, "")
    done = build(standin_host, told)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "the last build was stopped by the memory guard" in done.stderr
    assert "going on where it was stopped" in done.stderr
    assert deploys.on_host("ls -A /opt/vllm/build", host=standin_host) == ""


def test_a_build_survives_the_loss_of_ssh_and_the_next_run_attaches_to_it(standin_host, told):
    source.set_fault(standin_host, "sleep 12")
    before = int(compiled_steps(standin_host))

    def reached(line, _elapsed):
        return "step " in line

    assert deploys.deploy_and_kill(standin_host, reached, TASK, *told)
    status = deploys.on_host("systemctl is-active 'vllm-job-build-*'", host=standin_host)
    assert status == "active"
    done = build(standin_host, told)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(compiled_steps(standin_host)) - before == source.STEPS
    assert manifest(standin_host)["route"] == "source"


def test_a_build_that_is_killed_says_so_and_goes_on_the_next_time(standin_host, told):
    source.set_fault(standin_host, "systemctl kill --signal=KILL vllm-job-build-*")
    done = build(standin_host, told)
    assert done.returncode == 1
    assert "ended by signal" in done.stderr
    source.set_fault(standin_host, "")
    done = build(standin_host, told)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "going on where it was stopped" in done.stderr


def test_a_full_disk_is_named_and_leaves_nothing_behind(standin_host, told):
    deploys.on_host(
        "mkdir -p /opt/vllm/build && mount -t tmpfs -o size=40m tmpfs /opt/vllm/build",
        host=standin_host,
    )
    source.set_fault(standin_host, "dd if=/dev/zero of=filler bs=1M count=100")
    try:
        done = build(standin_host, told)
        left = deploys.on_host(
            "ls -A /opt/vllm/build /opt/vllm/work", host=standin_host, check=False
        )
    finally:
        deploys.on_host("umount /opt/vllm/build", host=standin_host)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "filler" not in left
    source.set_fault(standin_host, "")
    assert build(standin_host, told).returncode == 0
