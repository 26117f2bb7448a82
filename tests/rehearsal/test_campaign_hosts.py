"""Three hosts: one compiles for all; they are upgraded in turn, and a failure ends that.

Part of `make campaign`.
"""

import os
import subprocess

import pytest

from . import deploys, standin
from .conftest import rehearsal
from .standin import source

HOSTS = ("one", "two", "three")

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module")
def hosts():
    for name in HOSTS:
        rehearsal("up", "--name", name, "--fresh")
        standin.furnish(name)
    done = on_all("deploy.py")
    assert done.returncode == 0, done.stderr[-4000:]
    yield HOSTS
    for name in HOSTS:
        rehearsal("down", "--name", name)


def on_all(task, *arguments):
    return subprocess.run(
        [*deploys.PYINFRA, task, "-y", *arguments],
        cwd=deploys.checkout(HOSTS[0]),
        env=os.environ | deploys.environment(",".join(HOSTS)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def running():
    return [deploys.hostkit_state(name)["running"] for name in HOSTS]


def test_a_host_that_fails_ends_the_rollout_with_the_others_as_they_were(hosts):
    assert running() == [1, 1, 1]
    standin.furnish("two", extra_env={"STANDIN_FAULT": "exit"})
    done = on_all("tasks/upgrade_vllm.py", "--data", "max_num_seqs=3")
    assert done.returncode == 1
    assert "Switch to it: one (1 of 3)" in done.stderr
    assert "generation 2 failed and generation 1 serves again" in done.stderr
    assert "[three] not touched, since two failed" in done.stderr.replace("    ", "")
    assert running() == [2, 1, 1]


def compiled_steps(name):
    journal = "journalctl --output=cat --no-pager -u 'vllm-job-build-*'"
    return int(deploys.on_host(f"{journal} | grep -c Building; true", host=name))


def test_what_one_host_has_compiled_the_others_install(hosts):
    (where,) = {source.give(name) for name in HOSTS}
    told = ("--data", "build_route=source", "--data", f"vllm_source={where}")
    done = on_all("tasks/build_vllm.py", *told)
    assert done.returncode == 0, done.stderr[-4000:]
    assert [compiled_steps(name) for name in HOSTS] == [source.STEPS, 0, 0]
    assert done.stderr.count("compile: not needed") == 2
    routes = 'cat /opt/vllm/releases/*/manifest.json | grep -c \'"route": "source"\''
    assert [deploys.on_host(routes, host=name) for name in HOSTS] == ["1", "1", "1"]


def test_a_canary_goes_first_and_batches_together(hosts):
    standin.furnish("two")
    order = ("--data", "canary=three", "--data", 'rollout=[["one", "two"]]')
    done = on_all("tasks/upgrade_vllm.py", "--data", "max_num_seqs=5", *order)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Switch to it: three (1 of 2)" in done.stderr
    assert "Switch to it: one, two (2 of 2)" in done.stderr
    assert len({deploys.hostkit_state(name)["answering"] for name in HOSTS}) == 1
    for name in HOSTS:
        config = deploys.on_host("cat /opt/vllm/current/serve.yaml", host=name)
        assert "max-num-seqs: 5" in config
