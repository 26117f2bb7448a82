"""What was damaged, or is not ours, is put right or refused, and what serves is left alone."""

import pytest

from . import deploys
from .host import state

MODEL = "/var/lib/vllm/models/model-*"


@pytest.fixture
def stopped(standin_host):
    """A host whose server is down; afterwards it serves again as before."""
    deploys.on_host("systemctl stop vllm", host=standin_host)
    yield standin_host
    done = deploys.pyinfra("deploy.py", "-y", host=standin_host)
    assert done.returncode == 0, done.stderr
    assert "Paris" in deploys.ask("What is the capital of France?", host=standin_host)


def test_a_damaged_model_is_sent_again_and_the_server_goes_on(standin_host):
    before = deploys.on_host("systemctl show vllm -p MainPID --value", host=standin_host)
    file = f"$(ls {MODEL}/model.safetensors)"
    deploys.on_host(f"truncate -s -1 {file}", host=standin_host)
    assert deploys.pyinfra("deploy.py", "-y", host=standin_host).returncode == 0
    check = f"python3 -IB /opt/vllm/hostkit check-model {MODEL}"
    assert deploys.on_host(check, host=standin_host) == ""
    assert deploys.on_host("systemctl show vllm -p MainPID --value", host=standin_host) == before


def test_a_model_on_the_host_that_is_incomplete_is_refused_before_the_service_is_touched(
    standin_host,
):
    before = deploys.hostkit_state(standin_host)
    deploys.on_host("mkdir -p /srv/m && echo '{}' >/srv/m/config.json", host=standin_host)
    done = deploys.pyinfra("deploy.py", "-y", "--data", "model=host:/srv/m", host=standin_host)
    assert done.returncode == 1
    assert "no *.safetensors file" in done.stderr
    assert deploys.hostkit_state(standin_host) == before


def test_a_model_that_the_service_may_not_read_is_refused(standin_host):
    before = deploys.hostkit_state(standin_host)
    deploys.on_host(
        f"rm -rf /srv/m && cp -r {MODEL} /srv/m && chmod 700 /srv/m",
        host=standin_host,
    )
    done = deploys.pyinfra("deploy.py", "-y", "--data", "model=host:/srv/m", host=standin_host)
    assert done.returncode == 1
    assert "user vllm may not read /srv/m" in done.stderr
    assert deploys.hostkit_state(standin_host) == before


def test_a_model_on_the_host_is_used_in_place(standin_host):
    """The twin: a complete folder elsewhere is accepted, and nothing is copied."""
    deploys.on_host(f"rm -rf /srv/m && cp -r {MODEL} /srv/m", host=standin_host)
    done = deploys.pyinfra("deploy.py", "-y", "--data", "model=host:/srv/m", host=standin_host)
    assert done.returncode == 0, done.stderr
    staged = max(map(int, deploys.hostkit_state(standin_host)["generations"]))
    serve = deploys.on_host(f"cat /opt/vllm/generations/{staged}/serve.yaml", host=standin_host)
    assert 'model: "/srv/m"' in serve
    assert "/srv" in deploys.on_host("ls -d /srv/m", host=standin_host)


def test_a_host_that_is_damaged_by_hand_is_put_right(standin_host):
    deploys.on_host(
        "echo '# by hand' >>/etc/systemd/system/vllm.service; "
        "echo 'broken(' >>/opt/vllm/hostkit/hostkit/health/state.py; "
        "chmod 644 /etc/vllm/secrets.env; systemctl disable --quiet vllm",
        host=standin_host,
    )
    totals = deploys.deploy_json(host=standin_host)
    assert totals.success >= 3  # the unit is put right and enabled in one
    assert deploys.on_host("stat -c %a /etc/vllm/secrets.env", host=standin_host) == "600"
    assert deploys.on_host("systemctl is-enabled vllm", host=standin_host) == "enabled"
    assert deploys.deploy_json(host=standin_host).success == 0


def test_a_start_that_systemd_cannot_make_is_shown_and_another_generation_started(stopped):
    number = deploys.hostkit_state(stopped)["current"]
    unit = f"/opt/vllm/generations/{number}/vllm.service"
    deploys.on_host(f"sed -i 's,^EnvironmentFile=/etc,&/gone,' {unit}", host=stopped)
    said = deploys.on_host(
        f"python3 -IB /opt/vllm/hostkit activate {number} 2>&1; true", host=stopped
    )
    assert "was stopped" in said
    assert "environment file" in said
    assert deploys.pyinfra("deploy.py", "-y", host=stopped).returncode == 0
    assert deploys.hostkit_state(stopped)["running"] not in (None, number)


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
