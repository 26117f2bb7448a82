"""What is made of a hostkit that answers, refuses, is damaged, or is not there."""

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.connectors.util import CommandOutput, OutputLine

from tasks.shared.facts import answers
from tasks.shared.facts.hostkit import (
    HostkitProblems,
    HostState,
    HostStateFact,
    JobStatusFact,
    Outlook,
    OutlookFact,
)
from tasks.shared.operations.hostkit import Hostkit

HOSTKIT = Path("files/hostkit").resolve()

DAMAGES = {
    "a module cut short": ("hostkit/health/state.py", lambda text: text[: len(text) // 2]),
    "a module left empty": ("hostkit/host/lock.py", lambda text: ""),
    "a module that is no Python": ("hostkit/host/units.py", lambda text: text + "broken(\n"),
    "a module that is gone": ("hostkit/host/process.py", None),
    "a main module left empty": ("__main__.py", lambda text: ""),
    "a main module cut short": ("__main__.py", lambda text: text[:-12]),
    "bytes that are no text": ("hostkit/serving/server.py", lambda text: "\udcff\udcfe" + text),
}


@pytest.fixture
def installed(tmp_path):
    folder = tmp_path / "hostkit"
    shutil.copytree(HOSTKIT, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def ask(fact, folder, **arguments):
    """The fact's value, asked in a shell as pyinfra does, of the hostkit in this folder."""
    command = str(fact.command(**arguments)).replace(answers.HOSTKIT, str(folder))
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert done.returncode == 0, "a fact that fails drops its host"
    lines = done.stdout.decode("utf-8").splitlines()
    return fact.process(lines) if lines else fact.default()


def run(folder, *arguments):
    """Whether the hostkit in this folder could do it, and what pyinfra shows of that."""

    class ThisMachine:
        def run_shell_command(self, command, **_):
            script = command.get_raw_value().replace(answers.HOSTKIT, str(folder))
            done = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
            lines = [OutputLine("stdout", line) for line in done.stdout.splitlines()]
            return done.returncode == 0, CommandOutput(lines)

    pyinfra: Any = SimpleNamespace(print_output=False, print_input=False)
    this: Any = ThisMachine()
    done, output = Hostkit(*arguments).execute(pyinfra, this, {})
    return done, output.output_lines


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_hostkit_is_said_to_be_so_in_one_line(installed, damage):
    file, change = DAMAGES[damage]
    path = installed / file
    if change is None:
        path.unlink()
    else:
        text = change(path.read_text("utf-8"))
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    state = ask(HostStateFact(), installed)
    assert state.unknown
    assert state.unknown.startswith("hostkit on this host cannot be asked (")
    assert state.unknown.endswith("): deploy.py installs it again")
    assert "\n" not in state.unknown
    done, said = run(installed, "state")
    assert not done
    assert [line.startswith(answers.NO_ANSWER) for line in said] == [True]
    # What another question runs into may be something else, or nothing.
    assert ask(HostkitProblems(), installed, question=["check-release", "x"])
    assert ask(JobStatusFact(), installed, job="switch-1").state in ("unknown", "absent")
    assert ask(OutlookFact(), installed) == Outlook()


def test_a_question_that_another_hostkit_does_not_know_is_no_answer(installed):
    (found,) = ask(HostkitProblems(), installed, question=["a-question-of-next-year"])
    assert found.startswith(f"{answers.NO_ANSWER} (argument COMMAND: invalid choice")


def test_what_a_whole_hostkit_finds_wrong_is_a_line_each(installed):
    found = ask(HostkitProblems(), installed, question=["check-release", "no-such-release"])
    assert found
    assert not found[0].startswith(("hostkit", answers.NO_ANSWER))


def test_what_a_whole_hostkit_refuses_is_shown_as_it_says_it(installed):
    assert run(installed, "check-release", "no-such-release") == (
        False,
        ask(HostkitProblems(), installed, question=["check-release", "no-such-release"]),
    )
    done, (said,) = run(installed, "job", "status", "no-such-job")
    assert (done, json.loads(said)["state"]) == (True, "absent")


def test_a_command_for_a_host_without_hostkit_is_refused(tmp_path):
    assert run(tmp_path / "none", "install-unit") == (False, [answers.NOT_INSTALLED])


def test_a_host_without_hostkit_has_nothing_yet(tmp_path):
    assert ask(HostStateFact(), tmp_path / "none") == HostState()
    problems = ask(HostkitProblems(), tmp_path / "none", question=["probe"])
    assert problems == [answers.NOT_INSTALLED]


@pytest.mark.parametrize(
    ("output", "problems", "found"),
    [
        (['{"active": "active"}', "", "exit status 0"], None, "active"),
        (["a warning", '{"active": "active"}', "exit status 0"], None, "active"),
        (["hostkit: only root may do this (/x): use sudo", "exit status 1"], "only root", None),
        (["exit status 0"], "it says nothing", None),
        (["exit status 137"], "exit status 137", None),
        (['{"active": ["x"]}', "exit status 0"], "its answer does not fit: active", None),
    ],
)
def test_an_answer_is_understood_or_said_to_be_none(output, problems, found):
    state = HostStateFact().process(output)
    if problems is None:
        assert (state.unknown, state.active) == (None, found)
    else:
        assert state.unknown
        assert problems in state.unknown


def test_a_check_that_ends_well_has_found_nothing_whatever_it_says():
    assert HostkitProblems().process(["", "exit status 0"]) == []
    assert HostkitProblems().process(["release x is intact", "", "exit status 0"]) == []
    lines = ["one thing", "hostkit: another", "", "exit status 1"]
    assert HostkitProblems().process(lines) == ["one thing", "another"]


def test_the_state_of_a_job_is_read_as_it_was_said():
    said = json.dumps({"state": "running", "progress": "loading", "lines": [[1.0, "loading"]]})
    status = JobStatusFact().process([said, "", "exit status 0"])
    assert (status.state, status.lines) == ("running", [(1.0, "loading")])
