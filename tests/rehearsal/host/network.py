"""A network of the host's own: a namespace and a veth pair, known by the host's tag alone."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from .control import run
from .errors import RehearsalError

_NAMESPACES = Path("/run/netns")


def addresses(tag: str) -> tuple[str, str]:
    """(control machine's end, host's end) of the pair: the two addresses of a 10.x /30 network."""
    digest = hashlib.sha256(tag.encode()).digest()
    base = f"10.{128 + digest[0] % 112}.{digest[1]}"
    offset = digest[2] & 0xFC
    return f"{base}.{offset + 1}", f"{base}.{offset + 2}"


def namespace(tag: str) -> str:
    return f"rehearsal-{tag}"


def namespace_path(tag: str) -> Path:
    return _NAMESPACES / namespace(tag)


def make(tag: str) -> str:
    """Make namespace and pair anew; the host's address in it."""
    remove(tag)
    control, host = addresses(tag)
    near, far, space = f"rh{tag}", f"rn{tag}", namespace(tag)
    if control.rsplit(".", 1)[0] in run(["ip", "-4", "-o", "addr"]):
        raise RehearsalError(f"network {control}/30: in use on this machine; use another --name")
    run(["ip", "netns", "add", space])
    run(["ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", space])
    run(["ip", "addr", "add", f"{control}/30", "dev", near])
    run(["ip", "link", "set", near, "up"])
    run(["ip", "-n", space, "link", "set", "lo", "up"])
    run(["ip", "-n", space, "addr", "add", f"{host}/30", "dev", far])
    run(["ip", "-n", space, "link", "set", far, "up"])
    return host


def remove(tag: str) -> None:
    """Remove what `make` made, whatever of it there is, and the mount that `ip netns` leaves."""
    if os.path.exists(f"/sys/class/net/rh{tag}"):
        run(["ip", "link", "delete", f"rh{tag}"])
    if not namespace_path(tag).exists():
        return
    run(["ip", "netns", "delete", namespace(tag)])
    if not any(_NAMESPACES.iterdir()):
        with contextlib.suppress(RehearsalError):
            run(["umount", _NAMESPACES])
