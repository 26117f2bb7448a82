"""The front door before the stand-in: TLS, one path let through, 503 while nobody serves."""

import http.client
import json
import socket
import ssl
import threading

import pytest

from tasks.shared import templates
from tasks.shared.facts.hostkit import HostState
from tasks.shared.front_door import files, servers
from tasks.shared.operations import front_door
from tasks.shared.settings import Settings
from tests.unit.conftest import values_of

from . import deploys, standin, switching
from .host import state
from .listening import installed_as_it_comes, listeners
from .operations import CHANGES, NOTHING, run_operation

FILE = "tasks/front_door.py"
UNIT = "vllm-front-door.service"
CERTIFICATE = "/etc/vllm/front-door/tls/certificate.pem"


def run(command, host):
    return deploys.on_host(command, host=host)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Door:
    """A client in front of it, on another machine, that trusts its certificate and nothing else."""

    def __init__(self, host, port, certificate):
        self.host = host
        self.port = port
        self.key = deploys.api_key(host)
        self.trust = ssl.create_default_context(cadata=certificate)
        # Who has listened while it was installed: (program, address, port).
        self.seen: set[tuple[str, str, int]] = set()

    def connect(self, name="localhost"):
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection = http.client.HTTPConnection(name, self.port, timeout=30)
        connection.sock = self.trust.wrap_socket(raw, server_hostname=name)
        return connection

    def send(self, connection, method, path, body=None, key=None):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, headers)
        return connection.getresponse()

    def ask(self, method, path, body=None, key=None):
        """(status, Retry-After, body)"""
        connection = self.connect()
        answer = self.send(connection, method, path, body, key)
        found = answer.status, answer.getheader("Retry-After"), answer.read().decode()
        connection.close()
        return found

    def is_trusted(self):
        try:
            self.connect().close()
        except ssl.SSLCertVerificationError:
            return False
        return True

    def models(self):
        return self.ask("GET", "/v1/models", key=self.key)


TOLD = {
    "front_door": True,
    "front_door_address": "127.0.0.1",
    "front_door_port": free_port(),
    "front_door_certificate": "self-signed",
    "front_door_names": ["localhost", "gpu.lan", "127.0.0.1"],
}
MINE = {"front_door_certificate": "/srv/mine.pem", "front_door_certificate_key": "/srv/mine.key"}


def data(**changes):
    """The command line's options for a front door at a port that is free."""
    told = {name: value if value is True else json.dumps(value) for name, value in TOLD.items()}
    return [
        part for name, value in (told | changes).items() for part in ("--data", f"{name}={value}")
    ]


def opened(host, **changes):
    """Open it by the operation alone: (predicted a change, made one)."""
    production = values_of("group_data/all.py")
    own = {
        "port": state.load(host).api_port,
        "shutdown_timeout_s": standin.DATA["shutdown_timeout_s"],
    }
    settings = Settings.model_validate(production | own | TOLD | changes)
    return run_operation(
        host,
        front_door.opened,
        config=templates.front_door_config(settings, servers(settings, HostState())),
        unit=templates.front_door_unit(settings),
        certificate=files(settings)[0],
        key=files(settings)[1],
    )


@pytest.fixture(scope="module")
def door(standin_host):
    """It is opened by a deploy, and the deploy after that changes nothing."""
    with listeners(standin_host) as seen:
        assert deploys.deploy_json(*data(), host=standin_host, file=FILE).success > 0
    assert deploys.deploy_json(*data(), host=standin_host, file=FILE).success == 0
    opened = Door(standin_host, TOLD["front_door_port"], run(f"cat {CERTIFICATE}", standin_host))
    opened.seen = seen
    yield opened
    run_operation(standin_host, front_door.closed)


def test_nginx_itself_never_listened_anywhere(door):
    assert run("systemctl is-enabled nginx || true", door.host) == "masked"
    ours = ("nginx", "127.0.0.1", door.port)
    assert {each for each in door.seen if each[0] == "nginx"} == {ours}
    assert run(f"systemd-analyze verify {UNIT} 2>&1", door.host) == ""
    listening = run("ss -Hltnp | grep '\"nginx\"' | awk '{print $4}'", door.host)
    assert listening == f"127.0.0.1:{door.port}"


def test_it_is_who_its_certificate_says_and_no_one_else(door):
    for name in ("localhost", "gpu.lan", "127.0.0.1"):
        door.connect(name).close()
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        door.connect("other.lan")
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed certificate"):
        Door.connect(stranger(door))
    assert run(f"stat -c %a {CERTIFICATE.replace('certificate', 'key')}", door.host) == "600"


def stranger(door):
    """A client that was not given the certificate."""
    found = Door.__new__(Door)
    found.port, found.trust = door.port, ssl.create_default_context()
    return found


OPEN = ["/metrics", "/invocations", "/health", "/version", "/tokenize", "/load", "/docs", "/"]
DISGUISED = ["/v1/../metrics", "/v1/%2e%2e/metrics", "/v1/..%2fmetrics", "//metrics", "/V1/models"]


@pytest.mark.parametrize("path", OPEN + DISGUISED)
def test_what_vllm_gives_to_anybody_is_refused_with_the_key_and_without(door, path):
    for method in ("GET", "POST"):
        for key in (None, door.key):
            assert (
                door.ask(method, path, {"prompt": "1"} if method == "POST" else None, key)[0] == 404
            )


def test_a_path_that_only_nginx_reads_as_the_api_does_not_get_past_the_key(door):
    """vLLM answers all that begins with /metrics; behind the front door it never sees that."""
    path = "/metrics/../v1/models"
    assert deploys.request(door.host, path)[0] == 200
    assert door.ask("GET", path)[0] == 401


def test_the_api_wants_its_key_and_answers_with_it(door):
    body = {"model": "standin", "prompt": "2 + 3", "max_tokens": 5}
    assert door.ask("POST", "/v1/completions", body)[0] == 401
    assert door.ask("POST", "/v1/completions", body, "wrong" * 8)[0] == 401
    status, _, text = door.ask("POST", "/v1/completions", body, door.key)
    assert (status, json.loads(text)["choices"][0]["text"]) == (200, "5")


def test_a_body_that_is_too_large_is_refused(door):
    """64 MB may come; it is refused by its announced size, before it is sent."""
    connection = door.connect()
    connection.putrequest("POST", "/v1/completions")
    connection.putheader("Content-Length", str(65 * 1024**2))
    connection.endheaders()
    assert connection.getresponse().status == 413


def may_be_stopped(host):
    """What keeps the server from being stopped now; empty when nothing does."""
    usual = deploys.hostkit_state(host)["current"]
    return run(f"{switching.HOSTKIT} check-switch {usual} 2>&1; true", host)


def test_a_stream_arrives_as_it_is_written_and_counts_as_use(door):
    """A piece is here while the request still runs; a client that leaves ends it."""
    body = {"model": "standin", "prompt": "1", "max_tokens": 900, "ignore_eos": True}
    connection = door.connect()
    told = body | {"stream": True, "token_s": 0.2}
    answer = door.send(connection, "POST", "/v1/completions", told, door.key)
    lines = [answer.readline().removeprefix(b"data: ") for _ in range(3)]
    assert [json.loads(line)["token"] for line in lines[::2]] == [0, 1]
    said = may_be_stopped(door.host)
    assert "1 requests run or wait" in said
    assert "nginx" not in said
    connection.close()
    deploys.wait_for("an idle server", lambda: not may_be_stopped(door.host))


def test_a_client_of_the_front_door_that_waits_with_its_next_request_counts_as_use(door):
    connection = door.connect()
    told = "no request runs, but clients are connected: 127.0.0.1"
    assert told in may_be_stopped(door.host)
    connection.close()
    deploys.wait_for("an idle server", lambda: not may_be_stopped(door.host))


def test_while_the_server_is_switched_or_down_it_says_when_to_come_again(door):
    found, over = [], threading.Event()

    def client():
        while not over.is_set():
            found.append(door.models()[:2])

    usual = deploys.hostkit_state(door.host)["current"]
    thread = threading.Thread(target=client)
    thread.start()
    try:
        status, said = switching.switch(door.host, usual, "--force")
    finally:
        over.set()
        thread.join()
    assert status == 0, said
    assert set(found) == {(200, None), (503, "15")}
    run("systemctl stop vllm", door.host)
    status, again, text = door.models()
    assert (status, again, json.loads(text)["error"]["code"]) == (503, "15", 503)
    run(f"{switching.HOSTKIT} activate {usual}", door.host)
    run(f"{switching.HOSTKIT} verify --deadline 30", door.host)
    assert door.models()[0] == 200


def test_a_changed_port_is_found_before_the_switch_after_it_and_after_the_way_back(door):
    usual = deploys.hostkit_state(door.host)["current"]
    moved = data(port=free_port())
    for file in ("tasks/service.py", FILE):
        deploys.deploy_json(*moved, host=door.host, file=file)
    assert door.models()[0] == 200
    for number in (deploys.hostkit_state(door.host)["highest"], usual):
        assert number != deploys.hostkit_state(door.host)["running"]
        status, said = switching.switch(door.host, number, "--force")
        assert status == 0, said
        assert door.models()[0] == 200


def own_certificate(host):
    """One of the operator's, anew at each call; its text."""
    run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=x "
        "-addext subjectAltName=DNS:localhost -keyout /srv/mine.key -out /srv/mine.pem 2>/dev/null",
        host,
    )
    return run("cat /srv/mine.pem", host)


def test_certificates_of_the_operators_are_loaded_and_renewed_while_requests_go_on(door):
    run("rm -f /srv/mine.*", door.host)
    done = deploys.pyinfra(FILE, "-y", *data(**MINE), host=door.host)
    assert done.returncode == 1
    assert "/srv/mine.pem is not on the host: see front_door_certificate" in done.stderr
    kept = door.connect()
    pid = run(f"systemctl show {UNIT} -p MainPID --value", door.host)
    for _ in ("the first", "the renewed one"):
        trusting = Door(door.host, door.port, own_certificate(door.host))
        assert opened(door.host, **MINE) == CHANGES
        # nginx's workers take turns shortly after it was told to load it.
        deploys.wait_for("the certificate", trusting.is_trusted)
        assert trusting.models()[0] == 200
    assert opened(door.host, **MINE) == NOTHING
    assert run(f"systemctl show {UNIT} -p MainPID --value", door.host) == pid
    assert door.send(kept, "GET", "/v1/models", key=door.key).status == 200


def test_a_key_that_others_can_read_is_refused_and_a_groups_is_not(door):
    own_certificate(door.host)
    run("chmod 644 /srv/mine.key", door.host)
    done = deploys.pyinfra(FILE, "-y", *data(**MINE), host=door.host)
    assert done.returncode == 1
    assert "/srv/mine.key is root's, mode 644, expected root's" in done.stderr
    assert "sudo chmod 600 /srv/mine.key" in done.stderr
    run("chgrp mail /srv/mine.key; chmod 640 /srv/mine.key", door.host)
    assert opened(door.host, **MINE) == CHANGES


def test_a_self_signed_certificate_whose_key_was_opened_stays_and_its_key_is_closed(door):
    key = CERTIFICATE.replace("certificate", "key")
    before = run(f"chmod 644 {key}; cat {CERTIFICATE}", door.host)
    for expected in (CHANGES, NOTHING):
        made = run_operation(door.host, front_door.self_signed, names=TOLD["front_door_names"])
        assert made == expected
    assert run(f"stat -c %U:%a {key}; cat {CERTIFICATE}", door.host) == f"root:600\n{before}"


@pytest.mark.parametrize(
    "done",
    [
        "echo '# by hand' >>/etc/vllm/front-door/nginx.conf",
        # As when a deploy is killed between the two.
        "echo '# not loaded' >>/run/vllm-front-door/nginx.conf",
        f"systemctl stop {UNIT}",
        f"systemctl disable -q {UNIT}",
        f"echo '# by hand' >>/etc/systemd/system/{UNIT}",
    ],
)
def test_what_was_changed_by_hand_is_put_right(door, done):
    opened(door.host)
    run(done, door.host)
    assert opened(door.host) == CHANGES
    assert opened(door.host) == NOTHING


def test_a_certificate_that_is_no_good_changes_nothing(door):
    trusted = own_certificate(door.host)
    opened(door.host, **MINE)
    run("echo nothing >/srv/mine.key; echo >>/srv/mine.pem", door.host)
    done = deploys.pyinfra(FILE, "-y", *data(**MINE), host=door.host)
    assert done.returncode == 1
    assert 'cannot load certificate key "/srv/mine.key"' in done.stderr
    assert Door(door.host, door.port, trusted).models()[0] == 200


def test_without_it_nothing_of_it_is_left(door):
    assert deploys.deploy_json(host=door.host, file=FILE).success == 1
    assert run_operation(door.host, front_door.closed) == NOTHING
    with pytest.raises(ConnectionRefusedError):
        door.connect()
    left = (
        f"ls -d /etc/vllm/front-door /run/vllm-front-door /etc/systemd/system/{UNIT} 2>&1 || true"
    )
    assert run(left, door.host).count("No such file") == 3
    assert run("systemctl is-enabled nginx || true", door.host) == "masked"


@pytest.mark.campaign
def test_without_the_mask_the_package_listens_on_every_address(standin_host):
    """Why it is masked."""
    run_operation(standin_host, front_door.closed)
    assert ("nginx", "0.0.0.0", 80) in installed_as_it_comes(standin_host, "nginx")
