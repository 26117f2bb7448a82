"""What goes wrong is said with its cause, stops by itself, and leaves what served alone."""

import pytest

from . import deploys, state


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


def test_a_damaged_model_is_sent_again_and_the_server_goes_on(deployed):
    before = deploys.on_host("systemctl show vllm -p MainPID --value", host=deployed)
    file = "$(ls /var/lib/vllm/models/*/model.safetensors)"
    deploys.on_host(f"truncate -s -1 {file}", host=deployed)
    assert deploys.pyinfra("deploy.py", "-y", host=deployed).returncode == 0
    check = "python3 -IB /opt/vllm/hostkit check-model /var/lib/vllm/models/SmolLM2*"
    assert deploys.on_host(check, host=deployed) == ""
    assert deploys.on_host("systemctl show vllm -p MainPID --value", host=deployed) == before


def test_a_model_on_the_host_that_is_incomplete_is_refused_before_the_service_is_touched(deployed):
    before = deploys.hostkit_state(deployed)
    deploys.on_host("mkdir -p /srv/m && echo '{}' >/srv/m/config.json", host=deployed)
    done = deploys.pyinfra("deploy.py", "-y", "--data", "model=host:/srv/m", host=deployed)
    assert done.returncode == 1
    assert "no *.safetensors file" in done.stderr
    assert deploys.hostkit_state(deployed) == before


def test_a_model_that_the_service_may_not_read_is_refused(deployed):
    before = deploys.hostkit_state(deployed)
    deploys.on_host(
        "rm -rf /srv/m && cp -r /var/lib/vllm/models/SmolLM2* /srv/m && chmod 700 /srv/m",
        host=deployed,
    )
    done = deploys.pyinfra("deploy.py", "-y", "--data", "model=host:/srv/m", host=deployed)
    assert done.returncode == 1
    assert "user vllm may not read /srv/m" in done.stderr
    assert deploys.hostkit_state(deployed) == before


def test_a_model_on_the_host_is_used_in_place(deployed):
    """The twin: a complete folder elsewhere is accepted, and nothing is copied."""
    deploys.on_host("rm -rf /srv/m && cp -r /var/lib/vllm/models/SmolLM2* /srv/m", host=deployed)
    done = deploys.pyinfra("deploy.py", "-y", "--data", "model=host:/srv/m", host=deployed)
    assert done.returncode == 0, done.stderr
    staged = max(map(int, deploys.hostkit_state(deployed)["generations"]))
    serve = deploys.on_host(f"cat /opt/vllm/generations/{staged}/serve.yaml", host=deployed)
    assert 'model: "/srv/m"' in serve
    assert "/srv" in deploys.on_host("ls -d /srv/m", host=deployed)


def test_a_host_that_is_damaged_by_hand_is_put_right(deployed):
    deploys.on_host(
        "echo '# by hand' >>/etc/systemd/system/vllm.service; "
        "echo 'broken(' >>/opt/vllm/hostkit/hostkit/health/state.py; "
        "chmod 644 /etc/vllm/secrets.env; systemctl disable --quiet vllm",
        host=deployed,
    )
    totals = deploys.deploy_json(host=deployed)
    assert totals.success >= 3  # the unit is put right and enabled in one
    assert deploys.on_host("stat -c %a /etc/vllm/secrets.env", host=deployed) == "600"
    assert deploys.on_host("systemctl is-enabled vllm", host=deployed) == "enabled"
    assert deploys.deploy_json(host=deployed).success == 0


def test_a_start_that_systemd_cannot_make_is_shown_and_the_generation_made_anew(stopped):
    before = deploys.hostkit_state(stopped)
    number = before["current"]
    unit = f"/opt/vllm/generations/{number}/vllm.service"
    deploys.on_host(f"sed -i 's,^EnvironmentFile=/etc,&/gone,' {unit}", host=stopped)
    said = deploys.on_host(
        f"python3 -IB /opt/vllm/hostkit activate {number} 2>&1; true", host=stopped
    )
    assert "was stopped" in said
    assert "environment file" in said
    assert deploys.pyinfra("deploy.py", "-y", host=stopped).returncode == 0
    assert deploys.hostkit_state(stopped)["running"] == before["highest"] + 1


def test_a_misspelt_flag_is_shown_and_nothing_is_started(stopped):
    before = starts(stopped)
    done = deploys.pyinfra(
        "deploy.py", "-y", "--data", 'extra_serve_args={"enforce-eagre": true}', host=stopped
    )
    assert done.returncode == 1
    assert "enforce-eagre" in done.stderr
    assert "Traceback" not in done.stderr
    assert starts(stopped) == before


def test_a_server_without_a_key_does_not_start(stopped):
    deploys.on_host("systemctl reset-failed vllm; : >/etc/vllm/secrets.env", host=stopped)
    deploys.on_host("systemctl start vllm; sleep 2", host=stopped)
    log = deploys.on_host("journalctl -u vllm -o cat -n 20 --no-pager", host=stopped)
    assert "holds no API key" in log
    assert deploys.hostkit_state(stopped)["active"] == "failed"


def test_a_foreign_server_on_the_port_is_named_and_never_believed(stopped):
    port = state.load(stopped).api_port
    deploys.on_host(
        f"systemd-run --quiet --collect --unit=decoy python3 -m http.server {port}", host=stopped
    )
    try:
        done = deploys.pyinfra("deploy.py", "-y", host=stopped)
        assert done.returncode == 1
        assert f"port {port} is held by process" in done.stderr
        assert "http.server" in done.stderr
    finally:
        deploys.on_host("systemctl stop decoy", host=stopped)


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
