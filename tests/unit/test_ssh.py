"""SSH connections send at once."""

import logging
import socket

from pyinfra.connectors.ssh import connector_data_meta

from tasks.shared import ssh


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
