"""SSH hosts are known by their key; asked of the real pyinfra command and a small SSH server."""

import socket
import threading

import paramiko
import pytest
from paramiko.common import AUTH_FAILED

from tests.unit.test_config import repository, run

__all__ = ["repository", "run"]


class Server(paramiko.ServerInterface):
    """Lets nobody in, and remembers who tried."""

    def __init__(self, tried):
        self.tried = tried

    def get_allowed_auths(self, _username):
        return "password,publickey"

    def check_auth_publickey(self, username, _key):
        self.tried.append(username)
        return AUTH_FAILED

    def check_auth_password(self, username, _password):
        self.tried.append(username)
        return AUTH_FAILED


class Host:
    def __init__(self, listener):
        self.port = listener.getsockname()[1]
        self.key = paramiko.ECDSAKey.generate()
        self.tried = []
        self.listener = listener

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(self.key)
            transport.start_server(threading.Event(), Server(self.tried))

    def line(self, key):
        return f"[127.0.0.1]:{self.port} {key.get_name()} {key.get_base64()}\n"


@pytest.fixture
def host():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = Host(listener)
        threading.Thread(target=found.serve, daemon=True).start()
        yield found
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def reach(run, repository, host):
    """Run a task on that host with these lines as known_hosts; what is said, in one line."""

    def reached(known, **data):
        file = repository / "known_hosts"
        file.write_text(known)
        own = {
            "ssh_port": host.port,
            "ssh_user": "operator",
            "ssh_password": "canary-password",
            "ssh_known_hosts_file": str(file),
            "ssh_allow_agent": False,
            "ssh_look_for_keys": False,
        } | data
        (repository / "one.py").write_text(f'hosts = [("127.0.0.1", {own!r})]\n')
        done = run("one.py", "touch.py", "-y", "--debug")
        assert done.returncode == 1
        assert "Traceback" not in done.stdout
        assert file.read_text() == known
        return " ".join(done.stdout.split())

    return reached


def test_a_host_of_a_known_key_is_logged_in_to(reach, host):
    assert "Authentication error" in reach(host.line(host.key))
    assert host.tried == ["operator"]


def test_the_password_of_a_login_is_not_shown(reach, host):
    said = reach(host.line(host.key))
    assert "Connecting to: 127.0.0.1" in said
    assert "canary" not in said
    assert host.tried == ["operator"]


def test_a_host_of_an_unknown_key_is_told_nothing(reach, host):
    said = reach("")
    assert f"the host key of [127.0.0.1]:{host.port} is not in known_hosts" in said
    assert host.key.fingerprint in said
    assert f"log in once with `ssh -p {host.port} 127.0.0.1`" in said
    assert host.tried == []


def test_a_host_of_another_key_than_before_is_told_nothing(reach, host):
    said = reach(host.line(paramiko.ECDSAKey.generate()))
    assert "does not match" in said
    assert f"ssh-keygen -R [127.0.0.1]:{host.port}" in said
    assert host.tried == []


@pytest.mark.parametrize("told", ["no", "off"])
def test_no_setting_lets_an_unknown_key_pass(reach, host, told):
    assert "is not in known_hosts" in reach("", ssh_strict_host_key_checking=told)
    assert host.tried == []


def with_key(file):
    return {"ssh_password": "", "ssh_key": str(file)}


def test_a_key_that_others_can_read_opens_no_host_and_one_of_the_operators_alone_may(
    reach, host, tmp_path
):
    file = tmp_path / "key"
    host.key.write_private_key_file(str(file))
    file.chmod(0o640)
    said = reach(host.line(host.key), **with_key(file))
    assert f"ssh_key = '{file}': others can read this file: chmod 600 {file}" in said
    assert host.tried == []
    file.chmod(0o600)
    assert "Authentication error" in reach(host.line(host.key), **with_key(file))
    assert host.tried == ["operator"]


@pytest.mark.parametrize(
    ("text", "told"), [(None, "must be a file"), ("no key", "Invalid private key file")]
)
def test_a_key_that_is_none_is_said_in_one_line(reach, host, tmp_path, text, told):
    file = tmp_path / "key"
    if text:
        file.touch(0o600)
        file.write_text(text)
    assert f"ssh_key = '{file}': {told}" in reach(host.line(host.key), **with_key(file))
    assert host.tried == []
