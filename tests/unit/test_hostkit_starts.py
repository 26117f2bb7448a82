"""The count of starts, beside systemd's own."""

import time

import pytest

from hostkit.generation import starts
from hostkit.host import units
from hostkit.host.process import Failure

LIMIT = {"burst": 3, "interval_s": 264, "delay_s": 20}


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """Sets how often systemd has restarted the unit, and gives the clock."""
    monkeypatch.setattr(starts, "FILE", tmp_path / "starts.json")
    monkeypatch.setattr(starts, "SLOWEST", tmp_path / "slowest.json")
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def start(restarts, after):
        now[0] += after
        monkeypatch.setattr(units, "show", lambda *_: {"NRestarts": str(restarts)})
        starts.record()
        starts.check(LIMIT)

    return start


def test_as_many_starts_as_the_limit_says_and_not_one_more(counted):
    for restarts in range(3):
        counted(restarts, 80)
    with pytest.raises(Failure, match="start 4 within 264 s, 3 are allowed"):
        counted(3, 20)


def test_the_window_of_the_limit_slides(counted):
    """A long healthy run and then a loop: systemd's own window would allow nearly six starts."""
    counted(0, 0)
    for restarts in (1, 2, 3):
        counted(restarts, 100)
    with pytest.raises(Failure):
        counted(4, 10)


def test_a_start_that_somebody_asked_for_begins_the_count_anew(counted):
    for restarts in range(3):
        counted(restarts, 1)
    counted(0, 1)
    counted(1, 1)


def test_starts_that_fail_more_slowly_than_was_thought_are_counted_for_longer(counted):
    starts.record_failed(240)
    assert starts.window_s(LIMIT, starts.slowest_s()) == 858
    for restarts in range(3):
        counted(restarts, 240)
    with pytest.raises(Failure, match="within 858 s"):
        counted(3, 240)
    with pytest.raises(Failure, match="set slowest_failing_start_s = 240"):
        starts.check_reachable(LIMIT)
    starts.check_reachable(LIMIT | {"interval_s": 858})


def test_a_generation_of_before_the_limit_was_noted_is_let_through(counted):
    starts.check(None)
    starts.check_reachable(None)


def test_a_torn_count_is_no_count(counted, tmp_path):
    for text in ("", "{", "null", '["x"]'):
        (tmp_path / "starts.json").write_text(text)
        assert starts.times() == []
