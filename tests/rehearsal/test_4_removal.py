"""A vLLM that somebody runs by hand is taken over by name; uninstalling puts it back."""

import re

import pytest

from tasks.shared.network import BUNDLE, CERTIFICATES
from tests.imitation_network import certificates

from . import deploys, standin
from .conftest import rehearsal
from .host import state
from .operators import AS_OPERATOR, invite

HOST = "removal"
THEIRS = "my-llm.service"

UNIT = """[Unit]
Description=Somebody's own server
[Service]
Environment=VLLM_API_KEY=theirs
ExecStart=/srv/theirs/venv/bin/python /srv/theirs/venv/bin/vllm serve --config /srv/theirs/my.yaml
[Install]
WantedBy=multi-user.target
"""


def main_pid(unit):
    return deploys.on_host(f"systemctl show {unit} -p MainPID --value", host=HOST)


def wait_until_healthy():
    url = f"http://127.0.0.1:{state.load(HOST).api_port}/health"
    deploys.on_host(
        "for i in $(seq 60); do python3 -c "
        f"'import urllib.request as u; u.urlopen(\"{url}\")' 2>/dev/null && exit 0; sleep 0.2; "
        "done; exit 1",
        host=HOST,
    )


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A PEM file with a certificate authority of nobody's."""
    certificates(folder := tmp_path_factory.mktemp("network"))
    return folder / "authority.pem"


@pytest.fixture(scope="module")
def host(authority):
    """A host on which somebody's own server holds the port; ours was there once, and is gone."""
    rehearsal("up", "--name", HOST, "--fresh")
    standin.furnish(HOST, metrics=True)
    told = ("--data", f"ca_certificates={authority}")
    done = deploys.pyinfra("deploy.py", "-y", *told, host=HOST)
    assert done.returncode == 0, done.stderr[-4000:]
    deploys.on_host(
        "systemctl stop vllm; mkdir /srv/theirs; cd /srv/theirs; "
        "cp -a /opt/vllm/current/release/venv venv; cp /opt/vllm/current/serve.yaml my.yaml; "
        "sed -i s/served-model-name:.*/'served-model-name: theirs'/ my.yaml",
        host=HOST,
    )
    # By an operator who is not root, and whom hostkit would refuse.
    invite(HOST)
    plan = deploys.pyinfra("tasks/uninstall.py", "--dry", *AS_OPERATOR, host=HOST)
    assert "would remove /etc/systemd/system/vllm.service\n" in plan.stderr
    assert re.search(r"would keep /var/lib/vllm/models, [\d.]+ GB \(models\)\n", plan.stderr)
    done = deploys.pyinfra("tasks/uninstall.py", "-y", *AS_OPERATOR, host=HOST)
    assert done.returncode == 0, done.stderr
    deploys.on_host(f"cat >/etc/systemd/system/{THEIRS}", host=HOST, stdin=UNIT)
    deploys.on_host(f"systemctl enable --now --quiet {THEIRS}", host=HOST)
    wait_until_healthy()
    yield HOST
    rehearsal("down", "--name", HOST)


def test_an_uninstalled_host_has_nothing_of_it_but_what_was_kept(host, authority):
    left = f"ls -d /etc/vllm /run/vllm /etc/systemd/system/vllm* {CERTIFICATES} 2>/dev/null; true"
    assert deploys.on_host(left, host=host) == ""
    line = authority.read_text().splitlines()[3]
    assert deploys.on_host(f"grep -cxF {line} {BUNDLE}; true", host=host) == "0"
    # The rehearsal mounts its download cache there, and a mounted folder is nobody's to empty.
    assert deploys.on_host("find /opt/vllm -mindepth 1 -maxdepth 2", host=host).split() == [
        "/opt/vllm/cache",
        "/opt/vllm/cache/downloads",
    ]
    assert deploys.on_host("ls /opt/vllm/cache/downloads", host=host)
    assert deploys.on_host("ls /var/lib/vllm/models", host=host).startswith("model-")
    units = "systemctl list-unit-files 'vllm*' --no-legend; true"
    assert deploys.on_host(units, host=host) == ""
    # It would start at the next boot, and on every address.
    assert deploys.on_host("systemctl is-enabled prometheus || true", host=host) == "masked"
    done = deploys.pyinfra("tasks/uninstall.py", "-y", host=host)
    assert (done.returncode, "No changes" in done.stderr) == (0, True), done.stderr


def test_a_server_that_is_not_ours_is_shown_and_replaced_only_by_name(host):
    before = main_pid(THEIRS)
    done = deploys.pyinfra("tasks/adopt.py", "-y", host=host)
    assert done.returncode == 1
    assert f"{THEIRS}: process {before} of root (unit {THEIRS}), port" in done.stderr
    assert "name the one to replace: --data adopt=NAME" in done.stderr
    wrong = deploys.pyinfra("tasks/adopt.py", "-y", "--data", "adopt=other.service", host=host)
    assert wrong.returncode == 1
    assert f"no vLLM called other.service to adopt: {THEIRS}" in wrong.stderr
    assert main_pid(THEIRS) == before


def test_one_that_ours_cannot_replace_runs_again(host):
    fault = ("--data", 'extra_env={"STANDIN_FAULT": "exit"}')
    done = deploys.pyinfra("tasks/adopt.py", "-y", "--data", f"adopt={THEIRS}", *fault, host=host)
    assert done.returncode == 1
    assert f"failed and {THEIRS} runs again: RuntimeError: the stand-in was told" in done.stderr
    wait_until_healthy()
    assert main_pid(THEIRS) != "0"
    assert deploys.on_host(f"systemctl is-enabled {THEIRS}", host=host) == "enabled"


def test_one_that_is_replaced_comes_back_with_an_uninstall(host):
    done = deploys.pyinfra("tasks/adopt.py", "-y", "--data", f"adopt={THEIRS}", host=host)
    assert done.returncode == 0, done.stderr
    assert "its unit, environment and command are kept in" in done.stderr
    assert deploys.ask("What is the capital of France?", host=host).endswith("Paris.")
    assert main_pid(THEIRS) == "0"
    mode = deploys.on_host("stat -c %a /var/lib/vllm/adopted/*/note.json", host=host)
    assert mode == "600"

    gone = ("--data", 'uninstall_also=["user", "models", "packages"]')
    done = deploys.pyinfra("tasks/uninstall.py", "-y", *gone, host=host)
    assert done.returncode == 0, done.stderr
    assert f"{THEIRS} runs again" in done.stderr
    wait_until_healthy()
    assert main_pid(THEIRS) != "0"
    assert "masked" not in deploys.on_host("systemctl is-enabled prometheus 2>&1; true", host=host)
    assert (
        deploys.on_host("ls -d /var/lib/vllm 2>/dev/null; id vllm 2>/dev/null; true", host=host)
        == ""
    )
