"""The order in which a load test measures and switches, on a host that is imitated."""

from pathlib import Path

import pytest

from hostkit.generation import generations
from hostkit.host import paths
from hostkit.host.process import Failure
from hostkit.lifecycle import switch
from hostkit.measure import benchmark, loadsteps
from hostkit.serving import idle, server

OWN, BEFORE = 7, 5
RUN = {"name": "real, short", "prompts": "real", "tokens": [64], "answer": 8, "concurrency": 1}


class Host:
    """Notes what is done to it; `fails` names the generation that does not start."""

    def __init__(self, monkeypatch, fails=None):
        self.current = OWN
        self.done: list[object] = []
        self.fails = fails
        monkeypatch.setattr(idle, "require", lambda *_args: None)
        monkeypatch.setattr(server, "find", self.find)
        monkeypatch.setattr(switch, "held", self.switch)
        monkeypatch.setattr(generations, "linked", self.linked)
        monkeypatch.setattr(generations, "restore", self.restore)
        monkeypatch.setattr(benchmark, "texts", lambda *_args: [])
        monkeypatch.setattr(benchmark, "measure", self.measure)

    def find(self):
        return server.Server(100 + self.current, self.current, "http://127.0.0.1:1", "m", "1")

    def linked(self, link):
        return self.current if link == paths.CURRENT else BEFORE

    def switch(self, number, _deadline_s, *, trial_beside=None):
        self.done.append(("switch", number, trial_beside))
        if number == self.fails:
            raise Failure(f"generation {number} failed and generation {OWN} serves again")
        self.current = number

    def restore(self, number, previous):
        self.done.append(("restore", number, previous))

    def measure(self, found, *_args):
        self.done.append(("measure", found.generation))
        return {"figures": {"answer_tokens_per_s": 1.0}, "failed": 0}


def session(host, trials=(), budget_s=60):
    order = {"id": "1", "wait_s": 0, "deadline_s": 10, "budget_s": budget_s, "runs": [RUN]}
    order |= {"trials": list(trials), "scenarios": [], "soak": None, "profile": None}
    return loadsteps.Session(host.find(), order, Path("unused"))


def trials(*numbers):
    return [{"label": f"MTP {number}", "number": number} for number in numbers]


def test_without_a_trial_nothing_is_switched(monkeypatch):
    host = Host(monkeypatch)
    made = session(host)
    made.carry_out()
    assert host.done == [("measure", OWN)]
    assert [row["name"] for row in made.rows] == ["real, short"]


def test_each_trial_is_measured_and_the_generation_that_served_serves_again(monkeypatch):
    host = Host(monkeypatch)
    made = session(host, trials(OWN, 8, 9))
    made.carry_out()
    assert host.done == [
        ("measure", OWN),
        ("switch", 8, OWN),
        ("measure", 8),
        ("switch", 9, OWN),
        ("measure", 9),
        ("switch", OWN, None),
        ("restore", OWN, BEFORE),
    ]
    assert [row["name"] for row in made.rows] == [f"MTP {n}: real, short" for n in (OWN, 8, 9)]
    assert made.found.generation == OWN


def test_a_trial_that_does_not_start_ends_the_test_with_the_generation_that_served(monkeypatch):
    host = Host(monkeypatch, fails=9)
    with pytest.raises(Failure, match="generation 9 failed"):
        session(host, trials(8, 9, 10)).carry_out()
    assert host.done[-2:] == [("switch", OWN, None), ("restore", OWN, BEFORE)]
    assert ("measure", 10) not in host.done


def test_a_step_for_which_no_time_is_left_is_named(monkeypatch):
    made = session(Host(monkeypatch), budget_s=-1)
    made.carry_out()
    assert (made.rows, made.not_run) == ([], ["real, short"])
