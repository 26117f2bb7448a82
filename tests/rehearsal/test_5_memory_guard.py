"""The guard beside the running server: a compiler that eats memory is ended, the server goes on."""

import pytest

from . import deploys, memory

BODY = {"model": "standin", "prompt": "1 2 3", "max_tokens": 4}


@pytest.fixture
def low_floor(standin_host):
    """The guard acts as soon as half a GiB more is used than now."""
    floor = memory.available_mib(standin_host) - 512
    task = ("tasks/hostkit.py", "-y")
    done = deploys.pyinfra(*task, "--data", f"memory_floor_mib={floor}", host=standin_host)
    assert done.returncode == 0, done.stderr[-2000:]
    yield
    assert deploys.pyinfra(*task, host=standin_host).returncode == 0


def guard_journal(host):
    return deploys.on_host("journalctl -u vllm-guard --output=cat --no-pager", host=host)


def test_the_guard_runs_from_the_first_deploy_on(standin_host):
    assert deploys.on_host("systemctl is-active vllm-guard", host=standin_host) == "active"
    assert deploys.on_host("systemctl is-enabled vllm-guard", host=standin_host) == "enabled"
    assert "watching vllm.service" in guard_journal(standin_host)


def test_a_compiler_of_the_server_that_eats_memory_is_ended_while_requests_are_answered(
    standin_host, low_floor
):
    """The compiler is an imitation: a script that is called nvcc, in the unit's control group."""
    before = deploys.hostkit_state(standin_host)
    memory.put_eater(standin_host, "/srv/eater/nvcc")
    with deploys.asking(standin_host, BODY) as answers:
        said = deploys.on_host(
            memory.run_in_unit("vllm.service", "timeout 60 /srv/eater/nvcc"), host=standin_host
        )
    assert said.endswith("137")
    assert len(answers) > 2
    assert set(answers) == {200}
    after = deploys.hostkit_state(standin_host)
    assert after["guard"]["count"] == 1
    assert after | {"guard": None} == before
    assert "of vllm.service; the server goes on" in guard_journal(standin_host)
    shown = deploys.pyinfra("tasks/verify.py", "-y", host=standin_host)
    assert shown.returncode == 0
    assert "Memory ran out at " in shown.stderr
    assert "ended nvcc" in shown.stderr
    deploys.on_host("python3 -IB /opt/vllm/hostkit failures --seen", host=standin_host)
    again = deploys.pyinfra("tasks/verify.py", "-y", host=standin_host)
    assert "Memory ran out" not in again.stderr


def test_what_eats_memory_outside_of_the_unit_is_none_of_the_guards_business(
    standin_host, low_floor
):
    memory.put_eater(standin_host, "/srv/eater/ptxas")
    said = deploys.on_host("timeout 8 /srv/eater/ptxas; echo $?", host=standin_host)
    assert said.endswith("124")
    assert "has no compiler to end" in guard_journal(standin_host)
