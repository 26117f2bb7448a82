"""Watched starts of the stand-in for vLLM: what they show, compare, refuse and leave."""

import json
import re
import subprocess
import time

import pytest

from . import deploys, switching
from .host import state
from .switching import HOSTKIT, remains, serving, starts, switch, variant


@pytest.fixture
def host(standin_host):
    """The stand-in's host and the generation that it serves, before and afterwards."""
    found = deploys.hostkit_state(standin_host)
    number = found["running"]
    assert found["answering"]
    yield standin_host, number
    if deploys.hostkit_state(standin_host)["running"] != number:
        code, said = switch(standin_host, number, "--force")
        assert code == 0, said


def test_a_restart_shows_phases_and_compares_with_the_last_good_start(host):
    name, number = host
    assert switch(name, number)[0] == 0
    done = deploys.pyinfra("tasks/restart_vllm.py", "-y", host=name)
    assert done.returncode == 0, done.stderr
    for said in (
        "start limit: 3 starts in",
        "(the last good start took",
        "warming up",
        "KV pool 293,000 tokens, attention backend TURBOQUANT",
        "s without a server",
    ):
        assert said in done.stderr, said
    # The settings' own generation, whichever number it has here.
    assert re.search(r"generation \d+ answers after", done.stderr)
    assert "warning:" not in done.stderr
    assert remains(name) == ""
    assert deploys.on_host("systemctl show vllm -p Restart --value", host=name) == "always"


@pytest.mark.parametrize(
    ("tokens", "code", "told"),
    [
        ("288000", 0, "KV pool 288,000"),
        ("283000", 0, "warning: the KV pool is 283,000 tokens, 3.4 % smaller than 293,000"),
        ("200000", 1, "31.7 % smaller"),
    ],
)
def test_a_smaller_kv_pool_is_said_or_refused(host, tokens, code, told):
    name, good = host
    number = variant(name, good, STANDIN_KV_TOKENS=tokens)
    found, said = switch(name, number, "--go-back")
    assert (found, told in said) == (code, True), said
    assert ("warning:" in said) == (tokens == "283000")
    assert serving(name) == (number if code == 0 else good)


def test_what_is_accepted_by_name_is_not_refused(host):
    name, good = host
    number = variant(name, good, STANDIN_KV_TOKENS="200000")
    code, said = switch(name, number, "--pool-tolerance", "35")
    assert code == 0, said
    assert "warning: the KV pool" in said


def test_a_start_that_fails_is_made_once_and_its_cause_shown(host):
    name, good = host
    number = variant(name, good, STANDIN_FAULT="exit")
    code, said = switch(name, number)
    assert code == 1
    assert said.splitlines()[-1].startswith("hostkit: the server did not start and was stopped: ")
    assert "the stand-in was told to fail" in said.splitlines()[-1]
    assert starts(name, number) == 1
    assert deploys.hostkit_state(name)["active"] in ("failed", "inactive")
    assert remains(name) == ""


def test_a_client_that_is_connected_is_named_and_force_is_a_word(host):
    name, number = host
    port = state.load(name).api_port
    client = f'import socket, time; s = socket.create_connection(("127.0.0.1", {port})); '
    deploys.on_host(
        f"systemd-run --quiet --collect --unit=client python3 -c '{client} time.sleep(600)';"
        "sleep 1",
        host=name,
    )
    before = deploys.hostkit_state(name)
    try:
        code, said = switch(name, number)
        assert code == 1
        assert "no request runs, but clients are connected: process" in said
        assert "(python3) on this host" in said
        assert deploys.hostkit_state(name)["invocation"] == before["invocation"]
        done = deploys.pyinfra("tasks/restart_vllm.py", "-y", "--data", "force=True", host=name)
        assert done.returncode == 1
        assert "force = True: must be 'no' or 'yes'" in done.stderr
        assert switch(name, number, "--force")[0] == 0
    finally:
        deploys.on_host("systemctl stop client 2>/dev/null; true", host=name)
    assert deploys.hostkit_state(name)["invocation"] != before["invocation"]


def test_a_restart_waits_for_a_running_request_which_is_answered_in_full(host):
    name, good = host
    slow = variant(name, good, STANDIN_TOKEN_S="0.1")
    assert switch(name, slow)[0] == 0
    body = {"model": "standin", "prompt": "1 2 3", "max_tokens": 100, "ignore_eos": True}
    client = deploys.start_request(name, "/v1/completions", body, deploys.api_key(name))
    deploys.on_host(
        f"for i in $(seq 50); do {HOSTKIT} check-switch {slow} || break; done 2>&1", host=name
    )
    code, said = switch(name, good, "--wait", "60")
    assert code == 0, said
    assert "waiting until it is idle, for 60 s more: 1 requests run or wait; connected" in said
    status, text = json.loads(client.communicate(timeout=60)[0])
    assert (status, json.loads(text)["usage"]["completion_tokens"]) == (200, 100)


def test_a_second_operator_is_told_who_does_what_since_when(host):
    name, good = host
    number = variant(name, good, STANDIN_START_S="4")
    command = switching.switch_command(number, "--by", "ann@desk", "--doing", "testing this")
    first = subprocess.Popen(state.load(name).ssh_command(command), stdout=subprocess.DEVNULL)
    while not deploys.hostkit_state(name)["lock"]:
        assert first.poll() is None
        time.sleep(0.1)
    code, said = switch(name, good)
    assert code == 1
    assert "hostkit: ann@desk is testing this since 20" in said
    assert first.wait() == 0
    assert deploys.hostkit_state(name)["lock"] is None
    assert remains(name) == ""


def test_a_watcher_that_is_killed_leaves_a_server_and_nothing_else(host):
    """Killed while the new generation loads: the unit's own epilogue puts the good one back."""
    name, good = host
    number = variant(name, good, STANDIN_FAULT="never-ready")
    job = f"vllm-job-switch-{number}"
    deploys.on_host(
        f"{HOSTKIT} job start switch-{number} -- switch {number} --deadline 60 >/dev/null; "
        f"until journalctl -u vllm -o cat | grep -q '^hostkit: generation {number},'; "
        f"do sleep 0.1; done; systemctl kill -s KILL --kill-whom=main {job}; "
        f"while systemctl show -p ActiveState {job} | grep -Eq '=(active|deactivating)$'; "
        "do sleep 0.1; done; "
        f"for i in $(seq 50); do {HOSTKIT} probe 2>/dev/null && break; sleep 0.2; done",
        host=name,
    )
    assert serving(name) == good
    assert remains(name) == ""


def test_the_next_switch_clears_what_a_killed_one_left(host):
    """Killed without a unit around it: nothing happens by itself, the next run tidies up."""
    name, good = host
    number = variant(name, good, STANDIN_FAULT="never-ready")
    command = switching.switch_command(number, "--by", "ann@desk", "--doing", "testing this")
    deploys.on_host(
        f"{command} >/dev/null 2>&1 & "
        f"until journalctl -u vllm -o cat | grep -q '^hostkit: generation {number},'; "
        "do sleep 0.1; done; kill -9 $!",
        host=name,
    )
    assert "ann@desk" in remains(name)
    code, said = switch(name, good)
    assert code == 0, said
    assert "the run of ann@desk died while it was testing this: tidying up" in said
    assert serving(name) == good
    assert remains(name) == ""
