"""A changed setting: staged beside the server that serves, switched to by one command."""

import re
import shlex

import pytest

from . import deploys

CHANGED = ("--data", "max_num_seqs=3")


def server(host):
    """The process that serves: its id, when it started, its command line."""
    pid = deploys.on_host("systemctl show vllm -p MainPID --value", host=host)
    words = deploys.on_host(f"tr '\\0' ' ' </proc/{pid}/cmdline", host=host)
    return pid, deploys.on_host(f"stat -c %Y /proc/{pid}", host=host), words


@pytest.fixture(scope="module")
def staged(deployed):
    """A deploy with a changed setting; what served before, and what was said."""
    before = server(deployed), deploys.hostkit_state(deployed)
    done = deploys.pyinfra("deploy.py", "-y", *CHANGED, host=deployed)
    assert done.returncode == 0, done.stderr
    return *before, done.stderr


def test_the_serving_process_is_untouched(deployed, staged):
    before, state_before, _ = staged
    assert server(deployed) == before
    assert deploys.hostkit_state(deployed)["current"] == state_before["current"]


def test_the_message_names_the_generation_and_the_command(deployed, staged):
    _, before, said = staged
    number = before["running"]
    assert f"Generation {number} goes on serving" in said
    assert re.search(r"pyinfra \S+/inventory.py tasks/restart_vllm.py --data max_num_seqs=3", said)
    generations = deploys.hostkit_state(deployed)["generations"]
    assert max(map(int, generations)) == number + 1


def test_staging_it_again_changes_nothing(deployed, staged):
    totals = deploys.deploy_json(*CHANGED, host=deployed)
    assert (totals.changed, totals.error) == ((), 0)


def test_a_plan_shows_what_would_be_different(deployed, staged):
    done = deploys.pyinfra(
        "deploy.py", "--dry", "--diff", "--data", "max_num_seqs=2", host=deployed
    )
    assert done.returncode == 0
    assert "- max-num-seqs: 4" in done.stderr
    assert "+ max-num-seqs: 2" in done.stderr


def test_a_server_goes_on_from_its_own_release_when_current_moves(deployed, staged):
    """`current` is pointed at a generation whose release has another path; then back."""
    pid, _, words = server(deployed)
    release = deploys.on_host("readlink -f /opt/vllm/current/release", host=deployed)
    number = deploys.hostkit_state(deployed)["current"]
    deploys.on_host(
        f"cp -a /opt/vllm/generations/{number} /opt/vllm/generations/90 && "
        "ln -sfn /opt/vllm/releases/0.0.0-moved /opt/vllm/generations/90/release && "
        "ln -sfn generations/90 /opt/vllm/current",
        host=deployed,
    )
    try:
        maps = deploys.on_host(f"cat /proc/{pid}/maps", host=deployed)
        assert f"{release}/venv/" in maps
        assert "0.0.0-moved" not in maps
        assert server(deployed)[2] == words
        assert words.startswith(f"{release}/venv/bin/python")
        assert "Paris" in deploys.ask("What is the capital of France?", host=deployed)
    finally:
        deploys.on_host(
            f"ln -sfn generations/{number} /opt/vllm/current; rm -r /opt/vllm/generations/90",
            host=deployed,
        )


def test_a_restart_without_the_settings_being_staged_is_refused(deployed, staged):
    before = server(deployed)
    done = deploys.pyinfra("tasks/restart_vllm.py", "-y", "--data", "max_num_seqs=1", host=deployed)
    assert done.returncode == 1
    assert "run deploy.py first" in done.stderr
    assert server(deployed) == before


def test_the_command_that_was_printed_switches_to_the_staged_generation(deployed, staged):
    before, state_before, said = staged
    (command,) = re.findall(r"to switch to it: \S*pyinfra (.*)", said)
    inventory, *arguments = shlex.split(command)
    done = deploys.pyinfra(*arguments, "-y", inventory=inventory, host=deployed)
    assert done.returncode == 0, done.stderr
    now = deploys.hostkit_state(deployed)
    assert now["running"] == now["current"] == state_before["running"] + 1
    assert now["previous"] == state_before["running"]
    assert server(deployed)[0] != before[0]
    assert "max-num-seqs: 3" in deploys.on_host("cat /opt/vllm/current/serve.yaml", host=deployed)
    assert "s  importing vLLM" in done.stderr
    assert f"generation {now['running']} answers after" in done.stderr


def test_a_busy_server_is_not_restarted(deployed, staged):
    before = server(deployed)
    client = deploys.start_long_request(deployed)
    done = deploys.pyinfra("tasks/restart_vllm.py", "-y", *CHANGED, host=deployed)
    assert client.poll() is None, "the request ended too early to tell"
    assert done.returncode == 1
    assert "not restarted: 1 requests run or wait" in done.stderr
    assert server(deployed) == before
    client.kill()
    client.wait()
