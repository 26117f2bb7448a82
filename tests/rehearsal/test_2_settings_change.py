"""A changed setting: staged beside the server that serves, switched to by one command."""

import re
import shlex

import pytest

from . import deploys

# Its answers take their time, so that it can be found busy.
CHANGED = ("--data", "max_num_seqs=3", "--data", 'extra_env={"STANDIN_TOKEN_S": "0.04"}')


def server(host):
    """The process that serves: its id, when it started, its command line."""
    pid = deploys.on_host("systemctl show vllm -p MainPID --value", host=host)
    words = deploys.on_host(f"tr '\\0' ' ' </proc/{pid}/cmdline", host=host)
    return pid, deploys.on_host(f"stat -c %Y /proc/{pid}", host=host), words


@pytest.fixture(scope="module")
def staged(standin_host):
    """A deploy with a changed setting; what served before, and what was said."""
    before = server(standin_host), deploys.hostkit_state(standin_host)
    done = deploys.pyinfra("deploy.py", "-y", *CHANGED, host=standin_host)
    assert done.returncode == 0, done.stderr
    yield *before, done.stderr
    deploys.serve_by_settings(standin_host)


def test_the_serving_process_is_untouched(standin_host, staged):
    before, state_before, _ = staged
    assert server(standin_host) == before
    assert deploys.hostkit_state(standin_host)["current"] == state_before["current"]


def test_the_message_names_the_generation_and_the_command(standin_host, staged):
    _, before, said = staged
    number = before["running"]
    assert f"Generation {number} goes on serving" in said
    assert re.search(r"pyinfra \S+/inventory.py tasks/restart_vllm.py --data max_num_seqs=3", said)
    assert f"Generation {before['highest'] + 1} is staged" in said
    assert deploys.hostkit_state(standin_host)["highest"] == before["highest"] + 1


def test_staging_it_again_changes_nothing(standin_host, staged):
    totals = deploys.deploy_json(*CHANGED, host=standin_host)
    assert (totals.changed, totals.error) == ((), 0)


def test_a_plan_shows_what_would_be_different(standin_host, staged):
    done = deploys.pyinfra(
        "deploy.py", "--dry", "--diff", "--data", "max_num_seqs=2", host=standin_host
    )
    assert done.returncode == 0
    assert "- max-num-seqs: 4" in done.stderr
    assert "+ max-num-seqs: 2" in done.stderr


def test_a_server_goes_on_from_its_own_release_when_current_moves(standin_host, staged):
    """`current` is pointed at a generation whose release has another path; then back."""
    pid, _, words = server(standin_host)
    release = deploys.on_host("readlink -f /opt/vllm/current/release", host=standin_host)
    number = deploys.hostkit_state(standin_host)["current"]
    deploys.on_host(
        f"cp -a /opt/vllm/generations/{number} /opt/vllm/generations/90 && "
        "ln -sfn /opt/vllm/releases/0.0.0-moved /opt/vllm/generations/90/release && "
        "ln -sfn generations/90 /opt/vllm/current",
        host=standin_host,
    )
    try:
        maps = deploys.on_host(f"cat /proc/{pid}/maps", host=standin_host)
        assert f"{release}/venv/" in maps
        assert "0.0.0-moved" not in maps
        assert server(standin_host)[2] == words
        assert words.startswith(f"{release}/venv/bin/python")
        assert "Paris" in deploys.ask("What is the capital of France?", host=standin_host)
    finally:
        deploys.on_host(
            f"ln -sfn generations/{number} /opt/vllm/current; rm -r /opt/vllm/generations/90",
            host=standin_host,
        )


def test_a_restart_without_the_settings_being_staged_is_refused(standin_host, staged):
    before = server(standin_host)
    done = deploys.pyinfra(
        "tasks/restart_vllm.py", "-y", "--data", "max_num_seqs=1", host=standin_host
    )
    assert done.returncode == 1
    assert "no generation has these settings" in done.stderr
    assert server(standin_host) == before


def test_the_command_that_was_printed_switches_to_the_staged_generation(standin_host, staged):
    before, state_before, said = staged
    (command,) = re.findall(r"to switch to it: \S*pyinfra (.*)", said)
    inventory, *arguments = shlex.split(command)
    done = deploys.pyinfra(*arguments, "-y", inventory=inventory, host=standin_host)
    assert done.returncode == 0, done.stderr
    now = deploys.hostkit_state(standin_host)
    assert now["running"] == now["current"] == state_before["highest"] + 1
    assert now["previous"] == state_before["running"]
    assert server(standin_host)[0] != before[0]
    assert "max-num-seqs: 3" in deploys.on_host(
        "cat /opt/vllm/current/serve.yaml", host=standin_host
    )
    assert f"generation {now['running']} answers after" in done.stderr


@pytest.fixture(scope="module")
def busy(standin_host, staged):
    """A request that the server works on for a minute."""
    client = deploys.start_long_request(standin_host)
    yield client
    client.kill()
    client.wait()


def test_a_busy_server_is_not_restarted(standin_host, busy):
    before = server(standin_host)
    done = deploys.pyinfra("tasks/restart_vllm.py", "-y", *CHANGED, host=standin_host)
    assert busy.poll() is None, "the request ended too early to tell"
    assert done.returncode == 1
    assert "not restarted: 1 requests run or wait" in done.stderr
    assert server(standin_host) == before


def test_a_busy_server_keeps_its_key(standin_host, busy):
    key = deploys.api_key(standin_host)
    done = deploys.pyinfra("tasks/rotate_api_key.py", "-y", *CHANGED, host=standin_host)
    assert busy.poll() is None, "the request ended too early to tell"
    assert done.returncode == 1
    assert "not restarted: 1 requests run or wait" in done.stderr
    assert deploys.api_key(standin_host) == key
    assert deploys.request(standin_host, "/v1/models", key=key)[0] == 200
    totals = deploys.deploy_json(*CHANGED, host=standin_host)
    assert (totals.changed, totals.error) == ((), 0)
