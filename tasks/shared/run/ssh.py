"""SSH without the wait for acknowledgements, to hosts whose key is known, tried more than once."""

import logging
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import paramiko
from paramiko.ssh_exception import NoValidConnectionsError
from pyinfra.api import Host, State
from pyinfra.api.exceptions import ConnectError, PyinfraError
from pyinfra.connectors import ssh as connector
from pyinfra.connectors.sshuserclient import client

from tasks.shared import credentials


def use_nodelay() -> None:
    """Make every SSH host of this run send its small packets at once.

    A command over SSH is several small packets; with Nagle's algorithm each waits for the peer's
    delayed acknowledgement, 40 ms and more a command. A host whose own data names
    `ssh_paramiko_connect_kwargs` keeps what it says.
    """
    connector.connector_data_meta["ssh_paramiko_connect_kwargs"].default = {
        "transport_factory": _nodelay_transport
    }


def connect_again() -> None:
    """Try a connection three times: an sshd that is restarted refuses for a moment.

    What fails is said by pyinfra in one line; paramiko would print the traceback of its thread.
    """
    connector.connector_data_meta["ssh_connect_retries"].default = 2
    # It has no number, and would begin with "[Errno None]".
    NoValidConnectionsError.__str__ = lambda self: str(self.args[1])  # type: ignore[method-assign]
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)


def name_full_disks() -> None:
    """Say what an upload that ends with another size nearly always means.

    An SFTP server has no word for a disk that is full; paramiko sees that only by the size.
    """
    paramiko.SFTPClient.putfo = _putfo  # type: ignore[method-assign, assignment]


_paramikos_putfo = paramiko.SFTPClient.putfo


def _putfo(
    client: paramiko.SFTPClient, fl: Any, remotepath: Any, *args: Any, **kwargs: Any
) -> paramiko.SFTPAttributes:
    try:
        return _paramikos_putfo(client, fl, remotepath, *args, **kwargs)
    except OSError as error:
        if not str(error).startswith("size mismatch in put"):
            raise
        raise OSError(f"No space left on device for {remotepath}, it seems: {error}") from error


def _nodelay_transport(sock: socket.socket, **arguments: Any) -> paramiko.Transport:
    # A connection through a jump host is a channel, which has no such option and needs none.
    if isinstance(sock, socket.socket):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return paramiko.Transport(sock, **arguments)


def check_host_keys() -> None:
    """Let no host of this run be reached whose key is not in known_hosts.

    pyinfra itself takes the key of a host that it meets for the first time; with
    `ssh_strict_host_key_checking` = "accept-new" in its data it may still do so, with a warning.
    "no" and "off", whoever says so, are as strict as "yes".
    """
    connector.connector_data_meta["ssh_strict_host_key_checking"].default = "yes"
    client.StrictPolicy = KnownHostsOnly  # type: ignore[misc]
    client.WarningPolicy = KnownHostsOnly  # type: ignore[assignment,misc]
    client.get_host_keys = _host_keys


def _host_keys(files: tuple[str, ...]) -> paramiko.HostKeys:
    """One that is not there yet is no fault: the message on the unknown key says how it comes."""
    found: paramiko.HostKeys = _pyinfras_host_keys(tuple(f for f in files if Path(f).exists()))
    return found


_pyinfras_host_keys = client.get_host_keys


def check_key_files() -> None:
    """Let no host be reached with an `ssh_key` that others can read, as ssh itself would not.

    What is wrong with one is the host's, in one line; pyinfra ends with a traceback.
    """
    connector.get_private_key = _private_key


_pyinfras_private_key = connector.get_private_key


def _private_key(state: State, key_filename: str, key_password: str) -> paramiko.PKey:
    try:
        credentials.check_private(key_filename)
        return _pyinfras_private_key(state, key_filename, key_password)
    except (PyinfraError, ValueError, OSError) as error:
        raise ConnectError(f"ssh_key = {key_filename!r}: {error}") from error


def hide_passwords(hosts: Iterable[Host]) -> None:
    """Keep the passwords of these hosts out of what `--debug` says of each connection."""
    for host in hosts:
        told = host.connector.data
        if isinstance(host.connector, connector.SSHConnector) and told["ssh_password"]:
            told["ssh_password"] = _Hidden(told["ssh_password"])


class _Hidden(str):
    """A text that is not shown where its value is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'"


class KnownHostsOnly(client.StrictPolicy):
    """Refuses a host that is not in known_hosts, and says how it gets there."""

    def missing_host_key(
        self, _client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        raise paramiko.SSHException(
            f"the host key of {hostname} is not in known_hosts; it shows {key.get_name()} "
            f"{key.fingerprint}. If `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the host "
            f"(or another of its keys) says the same, log in once with {_login(hostname)}, and "
            "run this again"
        )


def _login(hostname: str) -> str:
    """The command that asks whether to trust a host, which known_hosts calls so."""
    if hostname.startswith("["):
        name, _, port = hostname[1:].partition("]:")
        return f"`ssh -p {port} {name}`"
    return f"`ssh {hostname}`"
