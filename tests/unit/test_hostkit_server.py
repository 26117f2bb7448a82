"""What hostkit asks of a server, against an imitated one, and whose server it is."""

import json
import os

import pytest

from hostkit.generation import generations, start
from hostkit.host import units
from hostkit.serving import server
from hostkit.serving.server import NotAnswering, Server
from tests.imitation_http import Quiet, serving

VERSION = "0.31.0+patched.0123456789ab"


@pytest.fixture
def answers():
    """Path to (status, text): what the imitated server says."""
    return {
        "/version": (200, json.dumps({"version": VERSION})),
        "/v1/completions": (200, json.dumps({"usage": {"completion_tokens": 4}})),
        "/health": (200, ""),
    }


@pytest.fixture
def running(answers):
    class Handler(Quiet):
        def do_GET(self):
            status, text = answers.get(self.path, (404, "{}"))
            self.reply(status, text.encode())

        def do_POST(self):
            self.sent()
            self.do_GET()

    with serving(Handler) as listening:
        yield Server(os.getpid(), 1, f"http://127.0.0.1:{listening.server_port}", "m", VERSION)


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setattr(server, "api_key", lambda pid: "key")


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("::1", "http://[::1]:8000"),
        ("192.168.1.5", "http://192.168.1.5:8000"),
        ("fd00::5", "http://[fd00::5]:8000"),
    ],
)
def test_a_server_is_asked_where_it_listens(monkeypatch, address, url):
    note = {"address": address, "port": 8000, "served_model_name": "m", "version": VERSION}
    monkeypatch.setattr(units, "show", lambda *_: {"MainPID": "7"})
    monkeypatch.setattr(units, "listeners", lambda _port: [7])
    monkeypatch.setattr(units, "belongs_to_unit", lambda _pid: True)
    monkeypatch.setattr(start, "running_generation", lambda _pid: 3)
    monkeypatch.setattr(generations, "note", lambda _number: note)
    assert server.find().url == url


@pytest.mark.parametrize(
    ("user", "told"),
    [(0, "nothing listens on port 8000 yet"), (1000, "only root sees who listens")],
)
def test_whoever_cannot_see_who_listens_is_told_to_use_sudo(monkeypatch, user, told):
    note = {"address": "127.0.0.1", "port": 8000, "served_model_name": "m", "version": VERSION}
    monkeypatch.setattr(units, "show", lambda *_: {"MainPID": "7"})
    monkeypatch.setattr(units, "listeners", lambda _port: [])
    monkeypatch.setattr(start, "running_generation", lambda _pid: 3)
    monkeypatch.setattr(generations, "note", lambda _number: note)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(NotAnswering, match=told):
        server.find()


def test_a_server_that_answers_passes(running):
    server.probe(running)
    assert server.is_healthy(running)


@pytest.mark.parametrize(
    ("path", "answer", "told"),
    [
        ("/version", (200, '{"version": "0.31.0"}'), "says version 0.31.0"),
        ("/version", (200, "[]"), "not a JSON object"),
        ("/version", (200, "<html>"), "not a JSON object"),
        ("/v1/completions", (200, '{"usage": {"completion_tokens": 1}}'), "came back with 1"),
        ("/v1/completions", (200, '{"usage": null}'), "came back with None"),
        ("/v1/completions", (500, "EngineDeadError"), "answered 500: EngineDeadError"),
        ("/v1/completions", (401, "Unauthorized"), "answered 401"),
    ],
)
def test_a_server_that_only_looks_alive_is_found_out(running, answers, path, answer, told):
    answers[path] = answer
    with pytest.raises(NotAnswering, match=told):
        server.probe(running)


def test_a_dead_server_is_not_healthy():
    gone = Server(os.getpid(), 1, "http://127.0.0.1:1", "m", VERSION)
    assert not server.is_healthy(gone)
    with pytest.raises(NotAnswering, match="did not answer"):
        server.probe(gone)


METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m"}} {0}
vllm:num_requests_running{{engine="1",model_name="m"}} {1}
vllm:num_requests_waiting{{engine="0",model_name="m"}} {2}
vllm:num_requests_waiting_by_reason{{engine="0",model_name="m",reason="capacity"}} 9.0
"""


@pytest.mark.parametrize(
    ("values", "count"),
    [(("0.0", "0.0", "0.0"), 0), (("1.0", "2.0", "0.0"), 3), ((0, 0, "3.0"), 3)],
)
def test_requests_are_counted_over_all_engines_running_and_waiting(running, answers, values, count):
    answers["/metrics"] = (200, METRICS.format(*values))
    assert server.requests_in_flight(running) == count


def test_a_missing_metric_is_not_idle(running, answers):
    answers["/metrics"] = (200, "vllm:num_requests_running 0.0\n")
    with pytest.raises(NotAnswering, match="num_requests_waiting is missing"):
        server.requests_in_flight(running)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ({"content": "Paris"}, "Paris"),
        ({"content": None, "reasoning": "Let me think"}, "Let me think"),
        ({"content": None}, "(no answer)"),
    ],
)
def test_an_answer_is_shown_also_when_the_model_only_thought(running, answers, message, shown):
    answers["/v1/chat/completions"] = (200, json.dumps({"choices": [{"message": message}]}))
    assert server.chat(running, "?") == shown


@pytest.fixture
def proc(tmp_path, monkeypatch):
    """A /proc with two processes: 10 of the unit listens on 8000, 20 of nobody's on 8001."""
    monkeypatch.setattr(units, "PROC", tmp_path)
    (tmp_path / "net").mkdir()
    head = (
        "  sl  local_address rem_address   st tx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    )
    row = " 0: 0100007F:{:04X} 00000000:0000 {} 00000000:00000000 00:00000000 00000000 0 0 {}\n"
    table = head + row.format(8000, "0A", 111) + row.format(8001, "0A", 222)
    (tmp_path / "net/tcp").write_text(table + row.format(8002, "01", 111))
    for pid, inode, unit in ((10, 111, "vllm.service"), (20, 222, "other.service")):
        (tmp_path / f"{pid}/fd").mkdir(parents=True)
        (tmp_path / f"{pid}/fd/3").symlink_to(f"socket:[{inode}]")
        (tmp_path / f"{pid}/cgroup").write_text(f"0::/system.slice/{unit}\n")
        (tmp_path / f"{pid}/cmdline").write_bytes(b"python3\0-m\0thing\0")


@pytest.mark.usefixtures("proc")
def test_a_port_that_another_process_holds_is_refused_by_its_name():
    assert units.listeners(8000) == {10}
    server.require_port(8000)
    with pytest.raises(NotAnswering, match=r"port 8001 is held by process 20 \(python3 -m thing\)"):
        server.require_port(8001)


@pytest.mark.usefixtures("proc")
def test_a_port_that_nobody_listens_on_is_free():
    """8002 has an established connection, and nobody who listens."""
    assert units.listeners(8002) == set()
    server.require_port(8002)


@pytest.mark.usefixtures("proc")
def test_the_ports_of_a_unit_are_those_that_its_processes_listen_on():
    assert units.ports("vllm.service") == [8000]
    assert units.ports("other.service") == [8001]
    assert units.ports("absent.service") == []
