"""An operator who is not root but may use sudo, as on most WSL2 machines."""

import pytest

from . import deploys
from .operators import AS_OPERATOR, NOT_ROOT, invite


@pytest.fixture(scope="module")
def sudo_host(deployed):
    invite(deployed)
    return deployed


def test_a_deploy_with_sudo_finds_nothing_to_change(sudo_host):
    totals = deploys.deploy_json(*AS_OPERATOR, host=sudo_host)
    assert (totals.changed, totals.error) == ((), 0)


def test_a_deploy_with_sudo_can_change_everything(sudo_host):
    """Uploads go another way than root's: files, folders, the model and the secret are sent."""
    deploys.on_host(
        "rm -rf /var/lib/vllm/models/SmolLM2* /opt/vllm/inputs/* /opt/vllm/hostkit; "
        "echo '# x' >>/etc/systemd/system/vllm.service; echo >>/etc/vllm/secrets.env",
        host=sudo_host,
    )
    totals = deploys.deploy_json(*AS_OPERATOR, host=sudo_host)
    assert totals.success >= 5
    assert deploys.deploy_json(host=sudo_host).success == 0
    left = deploys.on_host("ls -A /tmp | grep pyinfra; true", host=sudo_host)
    assert left == ""


def test_without_sudo_the_operator_is_told_what_to_set(sudo_host):
    done = deploys.pyinfra("deploy.py", "-y", *NOT_ROOT, host=sudo_host)
    assert done.returncode == 1
    assert "set _sudo = True" in done.stderr
    assert "Traceback" not in done.stderr
