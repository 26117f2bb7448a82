"""SSH without the wait for acknowledgements."""

import socket
from typing import Any

import paramiko
from pyinfra.connectors.ssh import connector_data_meta


def use_nodelay() -> None:
    """Make every SSH host of this run send its small packets at once.

    A command over SSH is several small packets; with Nagle's algorithm each waits for the peer's
    delayed acknowledgement, 40 ms and more a command. A host whose own data names
    `ssh_paramiko_connect_kwargs` keeps what it says.
    """
    connector_data_meta["ssh_paramiko_connect_kwargs"].default = {
        "transport_factory": _nodelay_transport
    }


def _nodelay_transport(sock: socket.socket, **arguments: Any) -> paramiko.Transport:
    # A connection through a jump host is a channel, which has no such option and needs none.
    if isinstance(sock, socket.socket):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return paramiko.Transport(sock, **arguments)
