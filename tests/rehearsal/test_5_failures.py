"""What goes wrong is said with its cause, stops by itself, and leaves what served alone."""

import pytest

from . import deploys


def stop(host):
    deploys.on_host("systemctl stop vllm", host=host)


def starts(host):
    """How often the service was started in this host's life."""
    log = deploys.on_host("journalctl -u vllm.service -o cat --no-pager", host=host)
    return log.count("hostkit: generation ")


@pytest.fixture(scope="module")
def left_down(deployed):
    """A host whose server need not serve between two tests: a start of the real engine takes long.

    Those that ask for it come last. Afterwards it serves again as before.
    """
    yield deployed
    done = deploys.pyinfra("deploy.py", "-y", host=deployed)
    assert done.returncode == 0, done.stderr
    assert "Paris" in deploys.ask("What is the capital of France?", host=deployed)


@pytest.fixture
def stopped(left_down):
    """A host whose server is down."""
    stop(left_down)
    return left_down


@pytest.mark.parametrize("file", ["vllm.env", "vllm.service", "serve.yaml"])
def test_a_generation_that_lost_a_file_is_made_anew_beside_the_server(deployed, file):
    before = deploys.hostkit_state(deployed)
    pid = deploys.on_host("systemctl show vllm -p MainPID --value", host=deployed)
    kept = f"/opt/vllm/generations/{before['current']}/{file}"
    deploys.on_host(f"mv {kept} /srv/kept", host=deployed)
    done = deploys.pyinfra("deploy.py", "-y", host=deployed)
    assert deploys.on_host("systemctl show vllm -p MainPID --value", host=deployed) == pid
    state = deploys.hostkit_state(deployed)
    assert state["highest"] == before["highest"] + 1
    assert done.returncode == 0, done.stderr
    deploys.on_host(
        f"mv /srv/kept {kept}; rm -r /opt/vllm/generations/{state['highest']}", host=deployed
    )


def test_a_misspelt_flag_is_shown_and_nothing_is_started(stopped):
    before = starts(stopped)
    done = deploys.pyinfra(
        "deploy.py", "-y", "--data", 'extra_serve_args={"enforce-eagre": true}', host=stopped
    )
    assert done.returncode == 1
    assert "enforce-eagre" in done.stderr
    assert "Traceback" not in done.stderr
    assert starts(stopped) == before


def test_an_engine_that_cannot_start_is_shown_with_its_own_cause(stopped):
    """KV offloading is refused by vLLM on a CPU: a real start that fails half-way.

    So little of it, since a container caps the locked memory that a real RAM tier needs.
    """
    before = starts(stopped)
    done = deploys.pyinfra("deploy.py", "-y", "--data", "kv_ram_gib=0.007", host=stopped)
    assert done.returncode == 1
    assert "Offloading" in done.stderr
    assert "Engine core initialization failed" not in done.stderr
    assert starts(stopped) == before + 1
    assert deploys.hostkit_state(stopped)["active"] in ("failed", "inactive")


def test_a_restart_that_fails_stops_shows_its_cause_and_can_be_undone(stopped):
    """Staged while the good one serves; the deploy after it goes back."""
    assert deploys.pyinfra("deploy.py", "-y", host=stopped).returncode == 0
    bad = ("--data", "kv_ram_gib=0.007")
    assert deploys.pyinfra("deploy.py", "-y", *bad, host=stopped).returncode == 0
    before = starts(stopped)
    done = deploys.pyinfra("tasks/restart_vllm.py", "-y", *bad, host=stopped)
    assert done.returncode == 1
    assert "Offloading" in done.stderr
    assert "Traceback" not in done.stderr
    assert starts(stopped) == before + 1
    assert deploys.hostkit_state(stopped)["active"] in ("failed", "inactive")
