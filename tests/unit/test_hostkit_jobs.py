"""What is told about a job, and the command line that starts one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hostkit import cli
from hostkit.host import jobs, paths, units
from hostkit.host.process import Failure, reason

HOSTKIT = Path("files/hostkit").resolve()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jobs, "JOBS", tmp_path)
    monkeypatch.delenv("HOSTKIT_JOB", raising=False)
    return tmp_path


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch):
    """Stands in for systemd: the unit's state, and the commands it was asked to run."""

    class Systemd:
        def __init__(self):
            self.active = "inactive"
            self.error = ""
            self.commands = []

        def show(self, *_names, unit):
            return {"ActiveState": self.active}

        def run(self, command, what):
            self.commands.append(command)
            if self.error:
                raise Failure(f"{what}: {self.error}")

    systemd = Systemd()
    monkeypatch.setattr(units, "ask", systemd.show)
    monkeypatch.setattr(jobs, "run", systemd.run)
    return systemd


def describe(running=False, result=None, told=None, now=100.0):
    return jobs.describe("build", running, result, told, now)


TOLD = {"started": 90.0, "text": "install: the locked packages"}
SUCCESS = {"result": "success", "exit_status": "0", "error": "", "ended": 95.5}
FAILURE = {"result": "exit-code", "exit_status": "1", "error": "no space left", "ended": 95.5}


def test_a_running_job_shows_its_progress_and_how_long_it_runs():
    told = describe(running=True, told=TOLD)
    assert (told["state"], told["progress"]) == ("running", "install: the locked packages")
    assert told["elapsed_s"] == 10.0


def test_the_result_of_an_earlier_run_is_not_shown_while_a_job_runs():
    told = describe(running=True, result=FAILURE, told=TOLD)
    assert (told["state"], told["result"], told["error"]) == ("running", "", "")


def test_a_job_that_ended_well_succeeded():
    told = describe(result=SUCCESS, told=TOLD)
    assert (told["state"], told["error"], told["elapsed_s"]) == ("succeeded", "", 5.5)


def test_a_job_that_failed_says_why():
    told = describe(result=FAILURE, told=TOLD)
    assert (told["state"], told["exit_status"], told["error"]) == ("failed", "1", "no space left")


def test_a_job_that_began_and_left_no_result_has_failed():
    told = describe(told=TOLD)
    assert told["state"] == "failed"
    assert "without a result" in told["error"]


def test_a_job_that_never_began_is_absent():
    assert describe()["state"] == "absent"


def test_the_error_is_hostkits_own_last_word():
    lines = ["tools: build tools", "hostkit: no wheel", "unit: Failed with result 'exit-code'."]
    assert jobs.last_error(lines, "exit-code") == "no wheel"


def test_without_a_word_of_hostkit_the_error_is_the_last_line():
    assert jobs.last_error(["Traceback", "KeyError: 'x'", " "], "exit-code") == "KeyError: 'x'"


@pytest.mark.parametrize("result", ["timeout", "oom-kill", "signal"])
def test_a_job_that_was_ended_says_by_what_and_where_it_was(result):
    lines = ["hostkit: a warning long ago", "install: the locked packages"]
    expected = f"ended by {result} after: install: the locked packages"
    assert jobs.last_error(lines, result) == expected


def test_a_job_runs_behind_the_server_and_dies_first():
    command = jobs.command("build", ["build-release", "/in"], 3600)
    assert "--collect" in command
    assert "--unit=vllm-job-build.service" in command
    for expected in ("OOMScoreAdjust=1000", "RuntimeMaxSec=3600", "IOWeight=10", "Nice=10"):
        assert f"--property={expected}" in command
    assert "--setenv=MAX_JOBS=1" in command
    record = f"--property=ExecStopPost=/usr/bin/python3 -IB {paths.HOSTKIT} job record build"
    assert record in command
    assert command[command.index("--") :] == [
        "--",
        "/usr/bin/python3",
        "-IB",
        str(paths.HOSTKIT),
        "build-release",
        "/in",
    ]


def test_a_load_test_dies_first_but_is_not_slowed_and_settles_what_it_switched(monkeypatch):
    words = jobs.command("load-test", ["load-test", "run", "order.json"], 60)
    assert "--property=OOMScoreAdjust=1000" in words
    assert not [word for word in words if "Nice=" in word or "Weight=" in word]
    assert next(word for word in words if word.startswith("--property=ExecStopPost=")).endswith(
        "/opt/vllm/hostkit settle"
    )


def test_only_what_a_download_needs_is_handed_on_to_a_job(systemd, folder, monkeypatch):
    """In a file of root's: command lines and units are shown to everybody."""
    environ = {"https_proxy": "http://me:pw@p", "PIP_CERT": "/c", "VLLM_API_KEY": "k", "HOME": "/x"}
    monkeypatch.setattr("os.environ", environ)
    jobs.start("build", [])
    file = folder / "build.env"
    assert file.read_text() == 'https_proxy="http://me:pw@p"\nPIP_CERT="/c"\n'
    assert file.stat().st_mode & 0o777 == 0o600
    (command,) = systemd.commands
    assert f"--property=EnvironmentFile={file}" in command
    assert "pw" not in " ".join(command)


def test_starting_a_job_forgets_the_result_of_the_last_one(systemd, folder):
    (folder / "build.json").write_text(json.dumps(FAILURE))
    assert jobs.start("build", ["check-release", "x"])
    assert not (folder / "build.json").exists()
    assert json.loads((folder / "build.progress").read_text())["text"] == "starting"
    assert len(systemd.commands) == 1


def test_starting_a_job_that_runs_attaches_to_it(systemd, folder):
    systemd.active = "active"
    (folder / "build.progress").write_text(json.dumps(TOLD))
    assert not jobs.start("build", ["check-release", "x"])
    assert systemd.commands == []
    assert json.loads((folder / "build.progress").read_text()) == TOLD


def test_a_job_that_systemd_refuses_is_an_error_and_not_a_job(systemd):
    systemd.error = "Failed to start transient service unit"
    with pytest.raises(Failure, match=r"^job build: Failed to start"):
        jobs.start("build", [])
    assert jobs.status("build")["state"] == "absent"


@pytest.mark.parametrize("name", ["", "Build", "a b", "../x", "-x"])
def test_a_name_that_is_not_a_units_is_refused(systemd, name):
    with pytest.raises(Failure, match="expected lower-case"):
        jobs.start(name, [])
    assert systemd.commands == []


def test_progress_is_printed_and_inside_a_job_kept(capsys, monkeypatch, systemd):
    jobs.progress("outside")
    monkeypatch.setenv("HOSTKIT_JOB", "build")
    jobs.progress("patch: 1 patch")
    assert capsys.readouterr().out == "outside\npatch: 1 patch\n"
    assert jobs.status("build")["progress"] == "patch: 1 patch"


def test_progress_keeps_the_time_of_the_start(folder, monkeypatch, systemd):
    monkeypatch.setenv("HOSTKIT_JOB", "build")
    (folder / "build.progress").write_text(json.dumps(TOLD))
    jobs.progress("next")
    kept = json.loads((folder / "build.progress").read_text())
    assert (kept["started"], kept["text"]) == (TOLD["started"], "next")
    assert [text for _elapsed, text in kept["lines"]] == ["next"]


def test_the_record_of_a_failed_job_is_what_status_then_says(systemd, monkeypatch):
    said = ["tools: build tools", "hostkit: no wheel"]
    monkeypatch.setattr(units, "journal", lambda invocation: said if invocation == "1a" else [])
    monkeypatch.setattr("shutil.which", lambda _name: None)
    jobs.record("build", {"SERVICE_RESULT": "exit-code", "EXIT_STATUS": "1", "INVOCATION_ID": "1a"})
    told = jobs.status("build")
    assert (told["state"], told["result"], told["error"]) == ("failed", "exit-code", "no wheel")


def test_a_job_whose_host_has_no_journal_says_why_it_failed_all_the_same(
    systemd, monkeypatch, capsys
):
    monkeypatch.setenv("HOSTKIT_JOB", "b")
    assert cli.main(["build-release", "/nowhere"]) == 1
    said = capsys.readouterr().err.strip().removeprefix("hostkit: ")
    monkeypatch.setattr(units, "journal", lambda _invocation: [])
    jobs.record("b", {"SERVICE_RESULT": "exit-code", "EXIT_STATUS": "1", "INVOCATION_ID": "1a"})
    assert jobs.status("b")["error"] == said
    assert "/nowhere" in said


def test_status_is_one_line_of_json_and_exits_zero_where_systemd_is_not():
    script = f"import argparse, sys; sys.path.insert(0, {str(HOSTKIT)!r})\n"
    script += "from hostkit.host import jobs as j\n"
    script += "parser = argparse.ArgumentParser(); j.register(parser.add_subparsers())\n"
    script += "args = parser.parse_args(); sys.exit(args.run(args))\n"
    done = subprocess.run(
        [sys.executable, "-IB", "-c", script, "job", "status", "no-such-job"],
        env={"HOSTKIT_ROOT": "/nonexistent", "PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["state"] == "absent"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Collecting x\nERROR: no such x\n", "ERROR: no such x"),
        ("  ├─▶ No solution\n  ╰─▶ No space left on device (os error 28)\n", "No space left"),
        ("ERROR: Exception:\nTraceback (most recent call last):\nOSError: full\n", "OSError: full"),
        (
            "WARNING: [Errno -2] Name or service not known\nERROR: no x\n",
            "no x; Name or service not",
        ),
        ("just words\nlast word\n", "last word"),
        ("", "exit status 2"),
    ],
)
def test_the_reason_of_a_failed_program_is_its_own_error_line(output, expected):
    assert expected in reason(output, 2)


def test_the_reason_is_one_line_that_ends_with_the_cause():
    output = "error: " + "a" * 500 + "\nCaused by: disk full\n"
    told = reason(output, 1)
    assert len(told) <= 400
    assert told.endswith("Caused by: disk full")
