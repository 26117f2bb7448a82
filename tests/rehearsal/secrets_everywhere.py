"""A rehearsal host with every secret that a deploy can be given, each of them a canary.

And with a front door to all addresses.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

from . import deploys
from .canaries import Canary
from .host import state

DOOR_KEY = "/etc/vllm/front-door/tls/key.pem"
WEBHOOK_PORT = 8911
USER = "canary-user"
PASSWORD = f"sudo-canary-{secrets.token_hex(12)}"
TOKEN = f"hf_canary{secrets.token_hex(12)}"
HOOK = f"hook-canary-{secrets.token_hex(12)}"

_MAKE_USER = f"""
export DEBIAN_FRONTEND=noninteractive
test -x /usr/bin/sudo || {{ apt-get -qq update; apt-get -qq -y install sudo; }}
id {USER} >/dev/null 2>&1 || useradd --create-home --shell /bin/bash {USER}
chpasswd
sed -i 's/^AllowUsers root$/AllowUsers root {USER}/' /etc/ssh/sshd_config.d/*.conf
systemctl reload ssh
install -d -m 700 -o {USER} ~{USER}/.ssh
install -m 600 -o {USER} ~/.ssh/authorized_keys ~{USER}/.ssh/
echo '{USER} ALL=(ALL) ALL' >/etc/sudoers.d/{USER}
"""
_REMOVE_USER = f"""
sed -i 's/^AllowUsers root {USER}$/AllowUsers root/' /etc/ssh/sshd_config.d/*.conf
systemctl reload ssh
rm -f /etc/sudoers.d/{USER}
userdel --force --remove {USER} 2>/dev/null
true
"""


@contextlib.contextmanager
def planted(host: str, *names: str, metrics: bool = False) -> Iterator[int]:
    """While it lasts, every run against the host is told all of them and needs sudo's password.

    `names` are what clients call the host. Yields the front door's port.
    """
    folder = state.load(host).folder
    file = folder / "data.json"
    before = file.read_text(encoding="utf-8")
    told = {
        "ssh_user": USER,
        "_sudo": True,
        "_sudo_password": PASSWORD,
        "hf_token_file": _private(folder / "canary-token", TOKEN),
        "notify_file": _private(
            folder / "canary-hook", f"http://127.0.0.1:{WEBHOOK_PORT}/hooks/{HOOK}"
        ),
        "front_door": True,
        "front_door_address": "0.0.0.0",
        "front_door_port": (port := _free_port()),
        "front_door_certificate": "self-signed",
        "front_door_names": ["localhost", *names],
        "metrics": metrics,
    }
    try:
        deploys.on_host(_MAKE_USER, host=host, stdin=f"{USER}:{PASSWORD}\n")
        file.write_text(json.dumps(json.loads(before) | told), encoding="utf-8")
        file.chmod(0o600)
        yield port
    finally:
        file.write_text(before, encoding="utf-8")
        deploys.on_host(_REMOVE_USER, host=host)
        for name in ("canary-token", "canary-hook"):
            (folder / name).unlink()


def canaries(host: str) -> list[Canary]:
    """Those that lie on the host by now, with the files in which they have to be."""
    key = deploys.on_host(f"sed -n 2p {DOOR_KEY} 2>/dev/null; true", host=host)
    return [
        Canary("API key", deploys.api_key(host), ("/etc/vllm/secrets.env",)),
        Canary("Hugging Face token", TOKEN, ("/etc/vllm/hf_token",)),
        Canary("webhook", HOOK, ("/etc/vllm/notify",)),
        Canary("sudo's password", PASSWORD),
        *([Canary("front door's key", key, (DOOR_KEY,))] if key else []),
    ]


def _private(file: Path, text: str) -> str:
    file.touch(0o600)
    file.write_text(f"{text}\n", encoding="utf-8")
    return str(file)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
