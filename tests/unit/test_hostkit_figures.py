"""What hostkit tells Prometheus of the service, its failures, its KV pool and the guard."""

import time

import pytest

from hostkit.generation import generations, starts
from hostkit.health import failures
from hostkit.host import guardlog, units
from hostkit.metrics import exposition, hostfigures
from hostkit.serving import goodstart
from hostkit.serving.goodstart import Start


def rendered(metrics):
    """Each sample's line."""
    lines = exposition.render(metrics).splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.fixture
def unit(monkeypatch):
    """What systemd says of vllm.service: a server that runs; to be changed by a test."""
    shown = {
        "ActiveState": "active",
        "NRestarts": "2",
        "MainPID": "77",
        "ExecMainStartTimestamp": "@1795995382",
        "InvocationID": "first",
    }
    monkeypatch.setattr(units, "show", lambda *names, **_: {name: shown[name] for name in names})
    return shown


@pytest.fixture
def current(monkeypatch, tmp_path):
    """The note of the current generation, number 7."""
    note = {"needs": {"gpus": 2}, "start_limit": {"burst": 3, "interval_s": 600, "delay_s": 20}}
    (tmp_path / "release").mkdir()
    monkeypatch.setattr(generations, "linked", lambda _link: 7)
    monkeypatch.setattr(generations, "folder", lambda _number: tmp_path)
    monkeypatch.setattr(generations, "note", lambda _number: note)
    return note


def test_the_service_is_in_one_state_and_began_at_a_time(unit, current):
    lines = rendered(hostfigures.service())
    assert [line for line in lines if line.endswith(" 1")] == [
        'vllm_host_service_state{state="active"} 1',
        'vllm_host_generation_info{generation="7",release="release"} 1',
    ]
    assert "vllm_host_service_start_timestamp_seconds 1795995382" in lines
    assert "vllm_host_service_restarts_total 2" in lines


def test_a_service_that_does_not_run_began_at_no_time(unit, current):
    unit |= {"ActiveState": "failed", "MainPID": "0", "NRestarts": ""}
    lines = rendered(hostfigures.service())
    assert 'vllm_host_service_state{state="failed"} 1' in lines
    assert not [line for line in lines if "start_timestamp" in line]


def test_starts_are_counted_as_the_limit_counts_them(unit, current, monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(starts, "times", lambda: [now - 700, now - 500, now - 1])
    monkeypatch.setattr(starts, "slowest_s", lambda: 0.0)
    lines = rendered(hostfigures.service())
    assert "vllm_host_starts_in_window 2" in lines
    assert "vllm_host_start_limit_burst 3" in lines
    assert "vllm_host_start_limit_window_seconds 600" in lines
    del current["start_limit"]
    assert not [line for line in rendered(hostfigures.service()) if "_limit_" in line]


def test_a_host_without_a_generation_has_no_limit_and_needs_no_gpu(unit, monkeypatch):
    monkeypatch.setattr(generations, "linked", lambda _link: None)
    assert not [line for line in rendered(hostfigures.service()) if "generation" in line]
    assert hostfigures.gpus_needed() == 0


def test_gpus_are_needed_as_the_generation_says(current):
    assert hostfigures.gpus_needed() == 2


def test_a_failure_is_unseen_until_somebody_looks(monkeypatch):
    newest = {"number": 4, "at": 1795990000.5, "class": "gpu-memory"}
    monkeypatch.setattr(failures, "latest", lambda: newest)
    monkeypatch.setattr(failures, "to_show", lambda: newest)
    before = rendered(hostfigures.failures_kept())
    monkeypatch.setattr(failures, "to_show", lambda: None)
    after = rendered(hostfigures.failures_kept())
    assert after == [
        "vllm_host_failures_total 4",
        "vllm_host_last_failure_timestamp_seconds 1795990000.5",
    ]
    assert before == [*after, 'vllm_host_failure_unseen{class="gpu-memory"} 1']


def test_without_a_failure_there_is_none(monkeypatch):
    monkeypatch.setattr(failures, "latest", lambda: None)
    monkeypatch.setattr(failures, "to_show", lambda: None)
    assert rendered(hostfigures.failures_kept()) == ["vllm_host_failures_total 0"]


def test_what_the_guard_ended_last_has_a_time_and_a_damaged_note_has_none(monkeypatch, tmp_path):
    monkeypatch.setattr(guardlog, "EVENTS", tmp_path)
    assert rendered(hostfigures.guard_actions()) == []
    guardlog.record("vllm.service", "memory")
    (tmp_path / "other.json").write_text("{")
    (line,) = rendered(hostfigures.guard_actions())
    name, at = line.split(" ")
    assert name == 'vllm_host_guard_action_timestamp_seconds{name="vllm.service"}'
    assert 0 <= time.time() - float(at) < 60


class Journal:
    """The log of each invocation, and how often it was read."""

    def __init__(self, monkeypatch):
        self.logs = {"first": "GPU KV cache size: 284,000 tokens", "second": ""}
        self.reads = 0
        monkeypatch.setattr(units, "journalctl", self.read)

    def read(self, *words):
        self.reads += 1
        line = self.logs[words[-1].removeprefix("_SYSTEMD_INVOCATION_ID=")]
        return [line] if line else []


def test_the_pool_is_read_once_a_start_and_compared_with_the_last_good_one(
    unit, current, monkeypatch
):
    monkeypatch.setattr(goodstart, "last_good", lambda *_: Start(1.0, kv_tokens=293000))
    journal, pool = Journal(monkeypatch), hostfigures.Pool()
    good = "vllm_host_kv_pool_good_tokens 293000"
    for _ in range(2):
        assert rendered(pool.metrics()) == ["vllm_host_kv_pool_tokens 284000", good]
    assert journal.reads == 1
    # One that is still loading is looked at again.
    unit["InvocationID"] = "second"
    for _ in range(2):
        assert rendered(pool.metrics()) == [good]
    assert journal.reads == 3
    journal.logs["second"] = "GPU KV cache size: 1,000 tokens"
    assert rendered(pool.metrics())[0] == "vllm_host_kv_pool_tokens 1000"
    # And one whose log does not say it is not looked for for ever.
    unit["InvocationID"], journal.logs["third"] = "third", ""
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    pool.metrics()
    reads = journal.reads
    monkeypatch.setattr(time, "monotonic", lambda: 3601.0)
    pool.metrics()
    assert journal.reads == reads
