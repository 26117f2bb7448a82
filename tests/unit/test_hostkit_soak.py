"""A soak test's rounds, with a load that is imitated."""

import itertools

import pytest

from hostkit.host import gpus
from hostkit.measure import soak


def rounds(*, failed=0):
    return lambda number: {
        "figures": {"answer_tokens_per_s": 100.0 + number},
        "failed": failed,
        "error": "no answer" if failed else "",
    }


@pytest.fixture
def clock(monkeypatch):
    """Each look at the clock takes ten seconds."""
    ticks = itertools.count(0.0, 10.0)
    monkeypatch.setattr("time.monotonic", lambda: next(ticks))
    monkeypatch.setattr(gpus, "read", lambda: [gpus.Gpu("0", "GPU-1", 12_000, 2_000)])


def test_rounds_go_on_until_the_time_is_over_and_each_leaves_a_sample(clock):
    said: list[str] = []
    row = soak.carry_out(100, rounds(), said.append)
    assert [sample["answer_tokens_per_s"] for sample in row["samples"]][:2] == [101.0, 102.0]
    assert len(row["samples"]) == len(said) > 3
    assert row["samples"][0]["gpu_mib"] == 10_000
    assert row["samples"][0]["available_mib"] > 0
    assert (row["failed"], row["error"]) == (0, "")


def test_there_are_two_rounds_at_least_and_failed_requests_add_up(clock):
    row = soak.carry_out(0, rounds(failed=2), lambda _text: None)
    assert (len(row["samples"]), row["failed"], row["error"]) == (2, 4, "no answer")


def test_without_a_gpu_only_the_hosts_memory_is_looked_at(clock, monkeypatch):
    def unreadable():
        raise gpus.Unreadable("no nvidia-smi")

    monkeypatch.setattr(gpus, "read", unreadable)
    assert "gpu_mib" not in soak.memory_now()
