"""The guard ends what it may and nothing else; real processes, memory told by a file."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hostkit.health import failures
from hostkit.host import guard, guardlog, memory, paths, units
from hostkit.host.process import Failure

PLENTY = b"MemTotal: 8388608 kB\nMemAvailable: 8000000 kB\n"
LITTLE = b"MemTotal: 8388608 kB\nMemAvailable: 100000 kB\n"


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """A machine whose memory the test tells, sampled often."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_bytes(PLENTY)
    monkeypatch.setattr(guardlog, "EVENTS", tmp_path / "guard")
    monkeypatch.setattr(memory, "INTERVAL_S", 0.01)
    monkeypatch.setattr(memory, "Reader", lambda: reader(meminfo, tmp_path / "no-psi"))
    return meminfo


reader = memory.Reader
SLEEP = f"sleep 60.{os.getpid()}"  # told apart from any other process that sleeps


def compile_until_memory_is_low(machine):
    """Under the guard: a shell that waits for a child of its own, as ninja waits for nvcc."""
    with guard.watching("build"):
        machine.write_bytes(LITTLE)
        if subprocess.run(["sh", "-c", f"{SLEEP} & wait"], check=False).returncode != 0:
            raise Failure("compile: killed by signal 9")


def test_a_job_that_ends_well_is_left_alone():
    with guard.watching("build") as watched:
        assert subprocess.run(["true"], check=False).returncode == 0
    assert watched.reason == ""
    assert watched.least_available_mib == 7812
    assert guardlog.last("build") is None


def test_a_job_is_ended_with_all_its_children_and_the_reason_is_kept(machine):
    before = sleeping()
    with pytest.raises(Failure, match="stopped by the memory guard: 97 MiB"):
        compile_until_memory_is_low(machine)
    assert sleeping() <= before
    ended = guardlog.last("build")
    assert ended
    assert ended["reason"].startswith("stopped by the memory guard: 97 MiB")
    guardlog.forget("build")
    assert guardlog.last("build") is None


def sleeping():
    """Processes that sleep and that nobody else has to collect."""
    command = ["ps", "-e", "-o", "pid=,state=,args="]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[0] for line in lines if SLEEP in line and " Z " not in line}


def test_a_job_that_fails_by_itself_keeps_its_own_reason():
    with pytest.raises(Failure, match="a patch failed"), guard.watching("build"):
        raise Failure("a patch failed")
    assert guardlog.last("build") is None


def test_a_job_does_not_begin_when_memory_is_low(machine):
    machine.write_bytes(LITTLE)
    with pytest.raises(Failure, match="not started"), guard.watching("build"):
        pytest.fail("it began")


@pytest.mark.parametrize("text", ["{", "[]", '{"at": "yesterday"}', '{"at": 1, "reason": "x"}'])
def test_a_damaged_record_is_no_reason(tmp_path, text):
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard/build.json").write_text(text)
    assert guardlog.last("build") is None


def test_what_was_ended_is_counted_and_shown_for_a_week(monkeypatch):
    assert guardlog.to_show("vllm.service") is None
    guardlog.record("vllm.service", "first")
    guardlog.record("vllm.service", "second")
    shown = guardlog.to_show("vllm.service")
    assert shown
    assert (shown["reason"], shown["count"]) == ("second", 2)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 8 * 24 * 3600)
    assert guardlog.to_show("vllm.service") is None
    assert guardlog.last("vllm.service") == shown


def test_failures_that_are_seen_end_the_guards_message_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "HEALTH", tmp_path / "health")
    guardlog.record(paths.UNIT, "memory")
    failures.seen()
    assert guardlog.to_show(paths.UNIT) is None


@pytest.fixture
def processes(tmp_path):
    """Processes that are called as asked, each a copy of `sleep`; ended with the test."""
    started = []

    def start(name):
        program = tmp_path / name
        program.write_bytes(Path("/bin/sleep").read_bytes())
        program.chmod(0o755)
        started.append(subprocess.Popen([program, "60"]))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.wait()


def test_beside_the_server_only_the_units_own_compilers_are_ended(processes, monkeypatch):
    ours, engine, foreign = processes("nvcc"), processes("VLLM::EngineCore"), processes("cicc")
    of_the_unit = {ours.pid, engine.pid}
    monkeypatch.setattr(units, "belongs_to_unit", lambda pid, unit: pid in of_the_unit)
    wait_for_name(ours.pid, "nvcc")
    wait_for_name(foreign.pid, "cicc")
    ended = guard.end(lambda: guard.compilers("vllm.service"))
    assert ended == [f"nvcc ({ours.pid})"]
    assert ours.wait(timeout=10) == -signal.SIGKILL
    assert engine.poll() is None
    assert foreign.poll() is None


def wait_for_name(pid, name):
    while guard._processes()[pid][0] != name:
        time.sleep(0.01)


def test_a_child_that_is_started_meanwhile_is_ended_as_well(processes):
    first, second = processes("ninja"), processes("ptxas")
    rounds = iter([{first.pid: "ninja"}, {first.pid: "ninja", second.pid: "ptxas"}])
    last = {first.pid: "ninja", second.pid: "ptxas"}
    assert len(guard.end(lambda: next(rounds, last))) == 2
    assert second.wait(timeout=10) == -signal.SIGKILL


def test_the_thread_ends_with_the_job():
    before = threading.active_count()
    with guard.watching("build"):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_a_name_with_parentheses_is_read_whole(tmp_path, monkeypatch):
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text("7 (a) (b) S 3 7 7 0\n")
    monkeypatch.setattr(units, "PROC", tmp_path)
    assert guard._processes() == {7: ("a) (b", 3)}


def test_the_guard_is_a_command():
    command = [sys.executable, "-IB", "files/hostkit", "guard", "--help"]
    assert "--floor-mib" in subprocess.run(command, capture_output=True, text=True).stdout
