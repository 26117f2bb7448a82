"""The stand-in for vLLM goes through the same deploy, and fails in the ways that it is told to."""

import json

import pytest

from . import deploys
from .host import state
from .measure import deploy


def told(**env):
    return ("--data", f"extra_env={json.dumps(env)}")


def test_the_standin_serves_as_vllm_does(standin_host):
    assert deploys.ask("What is the capital of France?", host=standin_host).endswith("Paris.")
    assert deploys.request(standin_host, "/v1/models")[0] == 401
    assert 'vllm:num_requests_running{engine="0"' in deploys.request(standin_host, "/metrics")[1]


def test_whoever_asks_whether_it_answers_is_told_where(standin_host):
    done = deploys.pyinfra("tasks/verify.py", "-y", host=standin_host)
    assert done.returncode == 0, done.stderr
    port = state.load(standin_host).api_port
    assert f"standin answers at http://127.0.0.1:{port}/v1\n" in done.stderr


def test_a_restart_says_in_its_plan_what_it_leads_to(standin_host):
    def plan(*data):
        return deploys.pyinfra("tasks/restart_vllm.py", "--dry", *data, host=standin_host).stderr

    assert "runs, and is started anew as it is" in plan()
    other = ("--data", "max_num_seqs=7")
    assert "would be refused: no generation has these settings" in plan(*other)
    done = deploys.pyinfra("deploy.py", "-y", "--diff", *other, host=standin_host)
    assert "+ max-num-seqs: 7" in done.stderr
    assert "generation.json" not in done.stderr
    assert "flags: + max-num-seqs: 7" in plan(*other)


POOR = "umask 077; export PATH=/usr/bin:/bin HOME=/nonexistent LC_ALL=C"


@pytest.fixture
def poor(standin_host):
    """Root's logins find a strict umask, no sbin, no home, no UTF-8; nothing runs or has run."""
    rc, kept = "/root/.bashrc", "/root/.bashrc.kept"
    deploys.on_host(
        f"touch {rc}; cp {rc} {kept}; {{ echo '{POOR}'; cat {kept}; }} >{rc}; "
        "systemctl stop vllm; rm -r /run/vllm",
        host=standin_host,
    )
    assert deploys.on_host("umask; echo $PATH", host=standin_host) == "0077\n/usr/bin:/bin"
    yield standin_host
    deploys.on_host(f"mv {kept} {rc}", host=standin_host)


def test_a_deploy_does_not_depend_on_what_a_login_of_roots_finds(poor):
    done = deploys.pyinfra("deploy.py", "-y", host=poor)
    assert done.returncode == 0, done.stderr[-3000:]
    assert deploys.request(poor, "/v1/models")[0] == 401
    assert deploys.on_host("stat -c %a /run/vllm", host=poor) == "755"


def test_a_deploy_without_a_change_needs_few_remote_commands(standin_host):
    commands = [asker for _, asker in deploy.run(standin_host, "deploy.py")["commands"]]
    assert len(commands) <= 6, "\n".join(commands)


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("exit", "the stand-in was told to fail"),
        pytest.param("nonsense", "came back with 0", marks=pytest.mark.campaign),
    ],
)
def test_a_fault_of_the_standin_is_seen_as_one(standin_host, fault, cause):
    data = told(STANDIN_FAULT=fault)
    assert deploys.pyinfra("deploy.py", "-y", *data, host=standin_host).returncode == 0
    done = deploys.pyinfra("tasks/restart_vllm.py", "-y", *data, host=standin_host)
    assert done.returncode == 1
    assert cause in done.stderr
    assert deploys.pyinfra("deploy.py", "-y", host=standin_host).returncode == 0


def test_a_server_that_falls_back_from_what_was_asked_for_does_not_count_as_started(standin_host):
    data = (*told(STANDIN_BACKEND="CPU_ATTN"), "--data", "kv_cache_dtype=turboquant_4bit_nc")
    assert deploys.pyinfra("deploy.py", "-y", *data, host=standin_host).returncode == 0
    done = deploys.pyinfra("tasks/restart_vllm.py", "-y", *data, host=standin_host)
    assert done.returncode == 1
    assert "nothing shows that attention reads turboquant_4bit_nc" in done.stderr
    assert deploys.pyinfra("deploy.py", "-y", host=standin_host).returncode == 0


def test_a_server_whose_log_shows_it_does(standin_host):
    data = ("--data", "kv_cache_dtype=turboquant_4bit_nc")
    assert deploys.pyinfra("deploy.py", "-y", *data, host=standin_host).returncode == 0
    done = deploys.pyinfra("tasks/restart_vllm.py", "-y", *data, host=standin_host)
    assert done.returncode == 0, done.stderr
