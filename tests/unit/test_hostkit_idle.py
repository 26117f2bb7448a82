"""Who uses the server, and when it counts as idle."""

import os
import socket
import time

import pytest

from hostkit.host import connections, units
from hostkit.host.connections import Client
from hostkit.host.process import Failure
from hostkit.serving import idle, server


@pytest.fixture
def said(monkeypatch):
    """What `busy` says, call by call (the last goes on); no time passes between the calls."""
    answers: list[str | None] = []
    now = [0.0]
    monkeypatch.setattr(idle, "busy", lambda: answers.pop(0) if len(answers) > 1 else answers[0])
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    return answers


def test_two_idle_samples_in_a_row_are_needed(said):
    said += [None, "1 requests run or wait", None, None, "never asked"]
    idle.require(60)
    assert said == ["never asked"]


def test_one_idle_sample_between_two_requests_is_not_enough(said):
    said += ["busy", None, "busy", None, "busy"]
    with pytest.raises(Failure, match=r"not restarted: busy after 3 s; wait, or say --data force="):
        idle.require(3)


def test_a_server_in_use_is_refused_at_once_without_a_time_to_wait(said):
    said += ["busy"]
    with pytest.raises(Failure, match=r"^not restarted: busy; wait, or say --data force=yes$"):
        idle.require(0)


def test_the_wait_counts_down(said):
    told: list[str] = []
    said += ["busy"]
    with pytest.raises(Failure):
        idle.require(25, told.append)
    assert told == [f"waiting until it is idle, for {left} s more: busy" for left in (25, 15, 5)]


@pytest.fixture
def one(monkeypatch):
    """A server of the unit with nobody connected; its requests are what a test sets."""
    found = server.Server(1, 1, "http://127.0.0.1:1", "m", "v", 1)
    monkeypatch.setattr(units, "ask", lambda *_names: {"ActiveState": "active"})
    monkeypatch.setattr(server, "find", lambda: found)
    monkeypatch.setattr(connections, "clients", lambda _port: [])
    monkeypatch.setattr(units, "ports", lambda _unit: [])
    monkeypatch.setattr(server, "requests_in_flight", lambda _server: 0)
    return monkeypatch


def test_nobody_and_nothing_is_idle(one):
    assert idle.busy() is None


def test_a_request_counts(one):
    one.setattr(server, "requests_in_flight", lambda _server: 3)
    assert idle.busy() == "3 requests run or wait"


def test_a_connected_client_counts_without_a_request(one):
    clients = [Client("10.0.0.7", 1), Client("10.0.0.7", 2), Client("10.0.0.8", 3)]
    one.setattr(connections, "clients", lambda _port: clients)
    told = "no request runs, but clients are connected: 10.0.0.7 (2 connections), 10.0.0.8"
    assert idle.busy() == told


@pytest.mark.parametrize("why", ["metric vllm:num_requests_waiting is missing", "no answer"])
def test_what_cannot_be_told_is_not_idle(one, why):
    def fail(_server):
        raise server.NotAnswering(why)

    one.setattr(server, "requests_in_flight", fail)
    assert idle.busy() == f"cannot tell whether it is idle ({why})"


def test_a_service_that_is_down_is_idle(one):
    one.setattr(units, "ask", lambda *_names: {"ActiveState": "failed"})
    assert idle.busy() is None


@pytest.fixture
def connected():
    listening = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listening.getsockname())
    yield listening.getsockname()[1], client.getsockname()[1]
    client.close()
    listening.close()


def test_a_connection_of_our_own_is_none(connected):
    port, _ = connected
    assert connections.clients(port) == []


def test_anothers_connection_is_seen_before_it_is_accepted(connected, monkeypatch):
    port, from_port = connected
    monkeypatch.setattr(connections, "is_own", lambda pid: False)
    assert connections.clients(port) == [Client("127.0.0.1", from_port, os.getpid())]


def test_who_is_connected_through_the_front_door_is_a_user_and_nginx_is_none(monkeypatch):
    here, there = Client("10.0.0.7", 1, 0), Client("10.0.0.8", 2, 0)
    monkeypatch.setattr(units, "ports", lambda unit: {connections.FRONT_DOOR: [443]}[unit])
    monkeypatch.setattr(connections, "clients", lambda port: {8000: [here], 443: [there]}[port])
    assert connections.users(8000) == [here, there]


V6 = (
    "  sl  local_address remote_address st\n"
    "   0: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000700000A:C350 01 "
    "0:0 0:0 0 0 0 77\n"
    "   1: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A "
    "0:0 0:0 0 0 0 78\n"
)


def test_a_client_over_ipv6_sockets_has_its_ipv4_address(tmp_path, monkeypatch):
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp6").write_text(V6)
    monkeypatch.setattr(units, "PROC", tmp_path)
    assert connections.clients(8080) == [Client("10.0.0.7", 50000)]


@pytest.mark.parametrize(
    ("groups", "own"),
    [
        ("0::/system.slice/prometheus.service\n", True),
        ("0::/system.slice/vllm-front-door.service\n", True),
        ("1:name=systemd:/system.slice/vllm-job-switch-2.service\n", True),
        ("0::/user.slice/session-1.scope\n", False),
        ("0::/system.slice/open-webui.service\n", False),
    ],
)
def test_monitoring_and_the_front_door_are_no_clients(tmp_path, monkeypatch, groups, own):
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text(groups)
    monkeypatch.setattr(units, "PROC", tmp_path)
    assert connections.is_own(7) is own
