"""SSH connections send at once."""

import io
import logging
import socket

import paramiko
import pytest
from pyinfra.connectors.ssh import connector_data_meta

from tasks.shared.run import ssh


def test_a_connection_does_not_wait_for_acknowledgements():
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
        ssh.use_nodelay()
        factory = connector_data_meta["ssh_paramiko_connect_kwargs"].default["transport_factory"]
        transport = factory(client)
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        transport.close()
        client.close()


def test_a_connection_that_is_refused_is_tried_again_and_no_traceback_of_a_thread_shown():
    ssh.connect_again()
    assert connector_data_meta["ssh_connect_retries"].default == 2
    assert not logging.getLogger("paramiko.transport").isEnabledFor(logging.ERROR)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("size mismatch in put!  0 != 340", "No space left on device for /etc/x, it seems: size"),
        ("Failure", "^Failure$"),
    ],
)
def test_an_upload_that_ends_early_is_told_as_a_full_disk(monkeypatch, said, told):
    def putfo(*_args, **_kwargs):
        raise OSError(said)

    monkeypatch.setattr(paramiko.SFTPClient, "putfo", None)
    monkeypatch.setattr(ssh, "_paramikos_putfo", putfo)
    ssh.name_full_disks()
    with pytest.raises(OSError, match=told):
        paramiko.SFTPClient.putfo(None, io.BytesIO(), "/etc/x")  # type: ignore[arg-type]
