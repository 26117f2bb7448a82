"""What is kept of failures. systemd and its journal are imitated."""

import json

import pytest

from hostkit.generation import generations, starts
from hostkit.health import evidence, failures, fingerprints
from hostkit.host import good, jobs, paths, sweep, units
from hostkit.lifecycle import hooks

KEY = "a-key-of-32-characters-0123456789"
OOM = f"torch.OutOfMemoryError: CUDA out of memory. (Bearer {KEY})"


class Host:
    def __init__(self, root):
        self.root = root
        self.journal: dict[str, list[str]] = {}
        self.versions = {"kernel": "6.6", "wsl": "2.6", "driver": "591.1"}
        self.told: list[str] = []
        self.jobs: list[str] = []


@pytest.fixture
def host(tmp_path, monkeypatch):
    """An imitated host: `journal` maps an invocation to its lines, `versions` may be changed."""
    for name, where in (("HEALTH", "health"), ("RUN", "run"), ("NOTIFY", "etc/notify")):
        monkeypatch.setattr(paths, name, tmp_path / where)
    (tmp_path / "etc").mkdir()
    secrets = tuple(tmp_path / "etc" / file.name for file in paths.SECRETS)
    monkeypatch.setattr(paths, "SECRETS", secrets)
    (tmp_path / "etc/secrets.env").write_text(f'VLLM_API_KEY="{KEY}"\n')
    monkeypatch.setattr(good, "FILE", tmp_path / "health/good.json")
    monkeypatch.setattr(failures, "_SEEN", tmp_path / "health/seen.json")
    monkeypatch.setattr(starts, "SLOWEST", tmp_path / "health/slowest.json")

    host = Host(tmp_path)
    monkeypatch.setattr(units, "journal", lambda name, lines=0: host.journal.get(name, []))
    monkeypatch.setattr(units, "journalctl", lambda *_: [])
    monkeypatch.setattr(units, "jobs", lambda: host.jobs)
    monkeypatch.setattr(good, "versions", lambda: dict(host.versions))
    monkeypatch.setattr(generations, "linked", lambda _link: 7)
    monkeypatch.setattr(jobs, "start", lambda name, *_, **__: host.told.append(name))
    monkeypatch.setattr(sweep, "sweep", list)
    return host


def fail(host, invocation, *lines, **more):
    host.journal[invocation] = list(lines)
    return failures.record(invocation, **more)


def latest():
    found = failures.latest()
    assert found is not None
    return found


def to_show():
    found = failures.to_show()
    assert found is not None
    return found


def test_the_first_failure_is_kept_and_later_ones_are_only_counted(host):
    good.mark("a", 1)
    fail(host, "b", OOM)
    fail(host, "c", "ModuleNotFoundError: No module named 'x'")
    kept = latest()
    assert (kept["class"], kept["invocation"]) == ("gpu-memory", "b")
    assert [later["class"] for later in kept["later"]] == ["missing-module"]
    assert "OutOfMemoryError" in (host.root / "health/failures/1/journal.log").read_text()


def test_after_a_good_state_a_new_series_begins(host):
    fail(host, "b", OOM)
    good.mark("c", 1)
    fail(host, "c", "ModuleNotFoundError: No module named 'x'")
    assert latest()["class"] == "missing-module"
    assert latest()["number"] == 2
    assert latest()["served"] is True


def test_nothing_failed_is_none(host):
    assert failures.latest() is None
    assert failures.to_show() is None


def test_no_secret_is_kept(host):
    (host.root / "etc/hf_token").write_text("hf_0123456789\n")
    (host.root / "etc/notify").write_text("https://hooks.example/T0KEN\n")
    fail(host, "b", OOM, "token hf_0123456789", "POST https://hooks.example/T0KEN", "x Bearer zz")
    texts = "".join(file.read_text() for file in (host.root / "health").rglob("*.*"))
    assert "OutOfMemoryError" in texts
    for secret in (KEY, "hf_0123456789", "T0KEN", "zz"):
        assert secret not in texts


def test_only_root_reads_what_is_kept(host):
    fail(host, "b", OOM)
    folder = host.root / "health/failures"
    assert {oct(each.stat().st_mode)[-3:] for each in (folder, folder / "1")} == {"700"}
    assert {oct(file.stat().st_mode)[-3:] for file in folder.glob("1/*")} == {"600"}


def test_what_is_kept_is_bounded(host):
    for number in range(failures.KEPT + 3):
        fail(host, f"f{number}", "x" * (evidence.BYTES // 2), "y" * evidence.BYTES)
        good.mark(f"g{number}", 1)
    folders = sorted(int(each.name) for each in (host.root / "health/failures").iterdir())
    assert folders == list(range(4, failures.KEPT + 4))
    sizes = [file.stat().st_size for file in (host.root / "health/failures").rglob("*.log")]
    assert max(sizes) <= evidence.BYTES
    for number in range(failures.LATER + 5):
        fail(host, f"h{number}", OOM)
    assert len(latest()["later"]) == failures.LATER


def test_one_failure_that_is_recorded_twice_is_one(host):
    """A hang is recorded by who notices it, and its end by the unit."""
    fail(host, "b", "x", kind=fingerprints.HANG, said="2 requests")
    fail(host, "b", "x", result="signal")
    assert latest()["later"] == []
    assert latest()["class"] == "hang"


def test_what_windows_changed_since_it_served_is_told(host):
    good.mark("a", 1)
    host.versions = host.versions | {"driver": "600.2"}
    fail(host, "b", "CUDA driver version is insufficient")
    assert to_show()["changed"] == {"driver": "591.1 -> 600.2"}


def test_a_full_disk_does_not_lose_it(host):
    (host.root / "health").write_text("not a folder: nothing can be written below it")
    fail(host, "b", OOM)
    assert latest()["folder"] == str(host.root / "run/failures/1")


def test_a_failure_is_shown_until_somebody_has_seen_it(host):
    fail(host, "b", OOM)
    shown = to_show()
    assert (shown["class"], shown["recovered"], shown["count"]) == ("gpu-memory", False, 1)
    good.mark("c", 1)
    assert to_show()["recovered"] is True
    failures.seen()
    assert failures.to_show() is None
    fail(host, "d", OOM)
    assert to_show()["number"] == 2


def test_an_old_failure_is_not_shown_any_more(host, monkeypatch):
    fail(host, "b", OOM)
    monkeypatch.setattr(failures, "SHOWN_S", -1)
    assert failures.to_show() is None


def test_who_is_to_be_told_is_told_once_a_series(host):
    fail(host, "a", OOM)
    assert host.told == []
    good.mark("b", 1)
    (host.root / "etc/notify").write_text("https://hooks.example/x\n")
    for invocation in "cde":
        fail(host, invocation, OOM)
    assert host.told == ["notify"]


def test_the_slowest_start_that_failed_is_remembered_and_no_crash_of_a_good_server(host):
    fail(host, "a", OOM, lasted_s=12.34)
    fail(host, "b", OOM, lasted_s=3)
    assert starts.slowest_s() == 12.3
    good.mark("c", 1)
    fail(host, "c", OOM, lasted_s=90000)
    assert starts.slowest_s() == 12.3


def test_a_server_that_was_up_for_hours_is_no_start_that_failed(host, monkeypatch):
    """An idle night after a boot: nobody had asked it anything."""
    up = ["INFO: Application startup complete."]
    monkeypatch.setattr(units, "journalctl", lambda *words: up if "--lines=1" in words else [])
    fail(host, "a", "Segmentation fault", lasted_s=50000)
    assert starts.slowest_s() == 0


def ended(host, monkeypatch, *jobs_of_the_unit, **environ):
    host.jobs = list(jobs_of_the_unit)
    monkeypatch.setattr(units, "show", lambda *names, **_: dict.fromkeys(names, "1000000"))
    monkeypatch.setattr(units, "sync_journal", lambda: None)
    return hooks.after_stop({"INVOCATION_ID": "b", **environ})


def test_a_clean_exit_that_nobody_asked_for_is_a_failure(host, monkeypatch, capsys):
    """vLLM ends with status 0 when its engine dies."""
    ended(host, monkeypatch, SERVICE_RESULT="success", EXIT_STATUS="0")
    assert latest()["class"] == "unasked-exit"
    assert "ended without being asked to" in capsys.readouterr().out


@pytest.mark.parametrize("job", ["stop", "restart", "try-restart"])
def test_a_stop_that_was_asked_for_is_none(host, monkeypatch, job):
    ended(host, monkeypatch, job, SERVICE_RESULT="success")
    assert failures.latest() is None


def test_a_start_that_waits_for_the_end_is_no_order_to_end(host, monkeypatch):
    ended(host, monkeypatch, "start", SERVICE_RESULT="signal", EXIT_STATUS="KILL")
    assert latest()["result"] == "signal"


def test_a_kill_for_memory_is_known_without_the_kernels_log(host, monkeypatch):
    ended(host, monkeypatch, SERVICE_RESULT="oom-kill")
    assert latest()["class"] == "host-memory"


@pytest.mark.parametrize(("status", "kind"), [("SYS", "sandbox"), ("KILL", "unknown")])
def test_a_call_that_the_unit_forbids_is_known_before_systemd_has_written_of_it(
    host, monkeypatch, status, kind
):
    ended(host, monkeypatch, SERVICE_RESULT="signal", EXIT_STATUS=status)
    assert latest()["class"] == kind


def test_a_report_is_json_for_other_programs(host):
    fail(host, "b", OOM)
    report = json.loads((host.root / "health/failures/1/report.json").read_text())
    assert report["generation"] == 7
    assert report["cause"].startswith("torch.OutOfMemoryError")
