"""A server that hangs, one that is idle and one that is slow. Server and systemd are imitated."""

from argparse import Namespace
from typing import Any

import pytest

from hostkit.health import failures, fingerprints, hang
from hostkit.host import good, units
from hostkit.serving import server

METRICS = """\
vllm:num_requests_running{{engine="0",model_name="m"}} {running}
vllm:num_requests_waiting{{engine="0",model_name="m"}} 0.0
vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} {usage}
vllm:prompt_tokens_total{{engine="0",model_name="m"}} 10.0
vllm:generation_tokens_total{{engine="0",model_name="m"}} {tokens}
vllm:iteration_tokens_total_count{{engine="0",model_name="m"}} {tokens}
http_requests_total{{handler="/metrics"}} {scrapes}
"""


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Looks at an imitated server; what is recorded and killed is in `seen`."""
    monkeypatch.setattr(hang, "STATE", tmp_path / "progress.json")
    found = server.Server(1, 3, "http://x", "m", "v")
    seen: dict[str, list[object]] = {"hangs": [], "commands": [], "good": [], "probes": []}
    told: dict[str, Any] = {
        "invocation": "a",
        "running": 1,
        "usage": 0.5,
        "tokens": 5,
        "scrapes": 0,
        "load": 1,
    }
    told |= {"now": 0.0, "answers": False}

    def metrics(_server):
        told["scrapes"] += 1
        return METRICS.format(**told)

    def probe(_server, timeout_s):
        seen["probes"].append(timeout_s)
        if not told["answers"]:
            raise server.NotAnswering("no answer")

    monkeypatch.setattr(server, "find", lambda: found)
    monkeypatch.setattr(server, "metrics", metrics)
    monkeypatch.setattr(server, "requests_in_flight", lambda _: told["running"])
    monkeypatch.setattr(server, "load", lambda _: told["load"])
    monkeypatch.setattr(server, "probe", probe)
    monkeypatch.setattr(units, "show", lambda *_: {"InvocationID": told["invocation"]})
    monkeypatch.setattr(units, "systemctl", lambda *words: seen["commands"].append(words))
    monkeypatch.setattr(failures, "record", lambda *_, **more: seen["hangs"].append(more["kind"]))
    monkeypatch.setattr(failures, "mark_good", lambda name, _: seen["good"].append(name))
    monkeypatch.setattr(good, "last", lambda: {"invocation": ([None, *seen["good"]])[-1]})
    monkeypatch.setattr(hang, "_now", lambda: told["now"])

    def look(after, restart=False, **changes):
        told.update(changes)
        told["now"] += after
        assert hang.watch(Namespace(after=300, restart=restart)) == 0
        return seen

    look(0)
    return look


def test_requests_without_any_progress_are_a_hang(watched):
    assert watched(299)["hangs"] == []
    assert watched(1)["hangs"] == [fingerprints.HANG]


def test_a_hang_is_told_once(watched):
    watched(300)
    assert len(watched(300)["hangs"]) == 1


def test_idle_is_no_hang(watched):
    watched(100, running=0, load=0)
    assert watched(10000)["hangs"] == []
    assert watched(10, running=1)["hangs"] == [], "the time of being idle does not count"
    assert watched(299)["hangs"] == []


def test_slow_is_no_hang(watched):
    """One long prompt gives no token for minutes, but its blocks are taken step by step."""
    for step in range(10):
        watched(299, usage=0.5 + step / 100)
    for step in range(10):
        assert watched(299, tokens=5 + step)["hangs"] == []


def test_an_engine_that_hung_while_it_was_idle_is_found_by_the_requests_that_the_api_took(watched):
    watched(10, running=0, load=2)
    assert watched(300)["hangs"] == [fingerprints.HANG]


def test_a_client_that_does_not_read_its_answer_is_no_hang(watched):
    assert watched(300, answers=True)["hangs"] == []
    assert watched(0)["probes"]


def test_a_new_server_begins_anew(watched):
    assert watched(300, invocation="b")["hangs"] == []


def test_a_server_that_does_not_say_is_not_judged(watched, monkeypatch):
    def silent(_server):
        raise server.NotAnswering("/metrics did not answer: timed out")

    monkeypatch.setattr(server, "metrics", silent)
    assert watched(10000)["hangs"] == []


def test_it_is_ended_only_when_that_was_asked_for(watched):
    assert watched(300)["commands"] == []
    watched(0, invocation="b")
    (command,) = watched(300, restart=True)["commands"]
    assert command[:2] == ("kill", "--signal=SIGKILL")


def test_a_server_that_has_given_tokens_is_a_good_state(watched):
    assert watched(1, tokens=0, invocation="b")["good"] == ["a"]
    assert watched(1, tokens=1)["good"] == ["a", "b"]


def test_a_server_that_nobody_has_asked_yet_is_asked_once(watched):
    """A boot at night: the next failure must not be taken for one of the series before."""
    seen = watched(1, tokens=0, running=0, load=0, invocation="b", answers=True)
    assert seen["good"] == ["a", "b"]
    assert len(watched(1)["probes"]) == len(seen["probes"]) == 1
