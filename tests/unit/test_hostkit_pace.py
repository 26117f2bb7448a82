"""How fast a server is: which rounds count, and when a new one is too slow."""

import threading
from types import SimpleNamespace

import pytest

from hostkit.measure import pace
from hostkit.measure.pace import Pace
from hostkit.serving import server
from tasks.shared.generation import switches

SERVER = server.Server(1, 1, "http://127.0.0.1:1", "m", "0")


@pytest.fixture
def fake(monkeypatch):
    """A server that answers at once; `others` are requests of somebody else in each round."""
    found = SimpleNamespace(finished=7, running=0, others=[], salts=[], prompts=[])
    lock = threading.Lock()

    def complete(_server, prompt, tokens, cache_salt):
        assert tokens == pace.TOKENS
        with lock:
            if len(found.salts) % pace.AT_ONCE == 0:
                found.finished += found.others.pop(0) if found.others else 0
            found.finished += 1
            found.salts.append(cache_salt)
            found.prompts.append(prompt)

    monkeypatch.setattr(server, "complete", complete)
    monkeypatch.setattr(
        server, "metrics", lambda _s: f'vllm:request_success_total{{a="b"}} {found.finished}\n'
    )
    monkeypatch.setattr(server, "requests_in_flight", lambda _s: found.running)
    return found


def test_every_round_asks_the_same_and_reads_nothing_that_is_cached(fake):
    found = pace.measure(SERVER)
    assert found is not None
    assert len(found.rounds) == pace.ROUNDS
    assert len(set(fake.prompts)) == pace.AT_ONCE
    assert len(set(fake.salts)) == pace.ROUNDS + 1


def test_a_round_in_which_others_used_the_server_does_not_count(fake):
    fake.others = [0, 3, 0, 1]
    found = pace.measure(SERVER)
    assert found is not None
    assert len(found.rounds) == pace.ROUNDS - 2


def test_a_server_that_others_use_all_along_has_no_pace(fake):
    fake.running = 1
    assert pace.measure(SERVER) is None


@pytest.mark.parametrize(
    ("now", "before", "said", "too_slow"),
    [
        (Pace((90.0, 94.0)), Pace((100.0, 60.0)), "6.0 % slower (94.0 tokens/s, 100.0 be", True),
        (Pace((95.0,)), Pace((100.0,)), "speed 95.0 tokens/s, 100.0 before, 95.0 %", False),
        (Pace((120.0,)), Pace((100.0,)), "speed 120.0 tokens/s, 100.0 before, 120.0 %", False),
        (None, Pace((100.0,)), "speed was not compared", False),
        (Pace((100.0,)), None, "speed was not compared", False),
    ],
)
def test_only_what_is_slower_by_more_than_the_gate_is_refused(now, before, said, too_slow):
    found, refused = pace.compare(now, before, 5)
    assert (found.startswith(said), refused) == (True, too_slow)


def test_a_pace_says_how_far_its_rounds_lie_apart():
    told = "100.0 tokens/s, the fastest of 3 rounds; the median is 2.0 % slower"
    assert str(Pace((90.0, 98.0, 100.0))) == told


def test_only_an_upgrade_is_told_to_compare(make):
    own = make(bench_gate=5.0, quality_check=True)
    upgrade = switches.switch(own, "upgrading", go_back=True, compare=True).arguments(2)
    assert upgrade[-4:] == ["--go-back", "--quality", "--bench-gate", "5"]
    assert "--bench-gate" not in switches.switch(own, "restarting").arguments(2)
    without = switches.switch(make(bench_gate=None), "upgrading", compare=True).arguments(2)
    assert "--bench-gate" not in without
