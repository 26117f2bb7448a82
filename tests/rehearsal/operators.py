"""An operator who is not root but may use sudo, as on most WSL2 machines."""

from . import deploys

NOT_ROOT = ("--data", "ssh_user=deployer")
AS_OPERATOR = (*NOT_ROOT, "--data", "_sudo=True")


def invite(host: str) -> None:
    """Make the operator's account on the host, which the same SSH key opens."""
    deploys.on_host(
        "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install sudo; "
        "sed -i 's/^AllowUsers root$/AllowUsers root deployer/' /etc/ssh/sshd_config.d/*.conf && "
        "systemctl reload ssh; "
        "useradd --create-home --shell /bin/bash deployer; "
        "install -d -m 700 -o deployer ~deployer/.ssh && "
        "install -m 600 -o deployer ~/.ssh/authorized_keys ~deployer/.ssh/ && "
        "echo 'deployer ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/deployer",
        host=host,
    )
