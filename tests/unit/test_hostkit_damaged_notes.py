"""hostkit's own notes on a host may be torn, junk or gone: each then counts as one not written."""

import json
import subprocess

import pytest

from hostkit.generation import start, starts
from hostkit.health import failures
from hostkit.host import good, paths, units
from hostkit.host.process import Failure

JUNK = [b"", b"\xff\xfe\0", b"[]", b"{}", b"null", b'{"at": 1}', b'{"later": 3}', b"Infinity"]
REPORT = {
    "at": 1e12,
    "invocation": "b",
    "class": "unknown",
    "what": "?",
    "remedy": "?",
    "cause": "?",
    "good_before": "a",
    "later": [],
}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty host; `server` makes its process number 7 run with such a command line."""
    monkeypatch.setattr(paths, "HEALTH", tmp_path)
    monkeypatch.setattr(paths, "RUN", tmp_path / "run")
    monkeypatch.setattr(good, "FILE", tmp_path / "good.json")
    monkeypatch.setattr(failures, "_SEEN", tmp_path / "seen.json")
    monkeypatch.setattr(starts, "SLOWEST", tmp_path / "slowest.json")
    monkeypatch.setattr(starts, "FILE", tmp_path / "starts.json")
    monkeypatch.setattr(start, "STARTED", tmp_path / "start.json")
    monkeypatch.setattr(units, "PROC", tmp_path / "proc")
    return tmp_path


def server(root, *words):
    (root / "proc/7").mkdir(parents=True)
    (root / "proc/7/cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))


@pytest.mark.parametrize("junk", [*JUNK, b"NaN", b"-3"])
def test_a_slowest_start_that_is_no_number_of_seconds_is_none(root, junk):
    starts.SLOWEST.write_bytes(junk)
    starts.FILE.write_bytes(junk)
    assert starts.slowest_s() == 0
    assert starts.times() == []
    starts.check_reachable({"burst": 3, "interval_s": 264, "delay_s": 20})


@pytest.mark.parametrize("junk", JUNK)
def test_a_report_of_a_failure_that_is_none_hides_no_other(root, junk):
    for number, content in ((1, json.dumps(REPORT).encode()), (2, junk)):
        folder = root / f"failures/{number}"
        folder.mkdir(parents=True)
        (folder / "report.json").write_bytes(content)
    good.FILE.write_bytes(junk)
    found = failures.to_show()
    assert found is not None
    assert (found["number"], found["recovered"]) == (1, True)


@pytest.mark.parametrize("junk", [None, *JUNK, b'{"pid": 8, "generation": 5}', b'{"pid": 7}'])
def test_what_a_server_serves_is_known_without_its_note(root, junk):
    serve = ("/x/python", "/x/vllm", "serve", "--config", f"{paths.GENERATIONS}/12/serve.yaml")
    server(root, *serve)
    if junk is not None:
        start.STARTED.write_bytes(junk)
    assert start.running_generation(7) == 12


def test_a_process_that_has_not_become_a_server_serves_nothing(root):
    server(root, "/usr/bin/python3", "-IB", "/opt/vllm/hostkit", "start")
    assert start.running_generation(7) is None
    assert start.running_generation(8) is None


def test_without_a_journal_nothing_is_waited_for_and_no_start_is_made(monkeypatch):
    def broken(*_words, **_more):
        return subprocess.CompletedProcess([], 1, "", "Failed to connect to journal\n")

    monkeypatch.setattr(subprocess, "run", broken)
    units.sync_journal()
    with pytest.raises(Failure, match=r"Failed to connect to journal: systemctl start systemd-j"):
        units.require_journal()
