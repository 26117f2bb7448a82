"""The API key: never shown, never readable by others, replaced by one command."""

import pytest

from . import deploys
from .host import state

NOISY = ["--diff", "-vvv", "--debug", "--debug-operations"]


def status(host, key):
    return deploys.request(host, "/v1/models", key=key)[0]


def test_the_server_wants_the_key(deployed):
    assert status(deployed, "wrong") == 401
    assert status(deployed, deploys.api_key(deployed)) == 200


def test_the_key_files_are_private(deployed):
    assert state.load(deployed).folder.joinpath("api_key").stat().st_mode & 0o777 == 0o600
    where = deploys.on_host("stat -c '%a %U' /etc/vllm/secrets.env", host=deployed)
    assert where == "600 root"


def test_a_new_key_that_cannot_be_kept_here_is_not_given_to_the_host(deployed):
    def held():
        return deploys.on_host("cat /etc/vllm/secrets.env", host=deployed)

    before = held()
    done = deploys.pyinfra(
        "tasks/service.py", "-y", "--data", "api_key_file=/proc/no/key", host=deployed
    )
    assert done.returncode == 1
    assert "cannot write /proc/no: No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr
    assert held() == before


@pytest.mark.parametrize("options", [["--dry", *NOISY], ["-y", *NOISY[:3]], ["-y", "--json"]])
def test_the_key_is_in_nothing_that_a_run_prints(deployed, options):
    """The key is uploaded again in these runs: its file on the host is spoilt before."""
    key = deploys.api_key(deployed)
    deploys.on_host("echo >>/etc/vllm/secrets.env", host=deployed)
    done = deploys.pyinfra("deploy.py", *options, host=deployed)
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout + done.stderr) > 500
    assert key not in done.stdout
    assert key not in done.stderr


def test_the_key_is_nowhere_else_on_the_host(deployed):
    key = deploys.api_key(deployed)
    folders = "/etc /opt /tmp /run /var/lib/vllm /root"
    found = deploys.on_host(
        "KEY=$(cat); "
        f'grep -rlF --exclude-dir=downloads -- "$KEY" {folders} 2>/dev/null; echo ---; '
        'journalctl --no-pager -o cat | grep -cF -- "$KEY"; true',
        host=deployed,
        stdin=key,
    )
    files, _, count = found.partition("---")
    assert files.split() == ["/etc/vllm/secrets.env"]
    assert count.strip() == "0"


def test_one_command_replaces_the_key(deployed):
    old = deploys.api_key(deployed)
    wait = ("--data", "idle_wait_s=60")
    done = deploys.pyinfra("tasks/rotate_api_key.py", "-y", "--diff", *wait, host=deployed)
    assert done.returncode == 0, done.stderr
    new = deploys.api_key(deployed)
    assert new != old
    assert (status(deployed, old), status(deployed, new)) == (401, 200)
    assert new not in done.stderr
    assert "s  importing vLLM" in done.stderr, "what the start is at is shown on the way"
    totals = deploys.deploy_json(host=deployed)
    assert (totals.changed, totals.error) == ((), 0)


def test_a_plan_of_the_rotation_replaces_nothing(deployed):
    before = deploys.api_key(deployed)
    done = deploys.pyinfra("tasks/rotate_api_key.py", "--dry", "--diff", host=deployed)
    assert done.returncode == 0
    assert "Write the new API key" in done.stderr
    assert "no generation has these settings" not in done.stderr
    assert deploys.api_key(deployed) == before
    assert status(deployed, before) == 200
