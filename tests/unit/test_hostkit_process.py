"""Running other programs: how each way in which one ends is told."""

import pytest

from hostkit.health import evidence
from hostkit.host import gpus, process
from hostkit.host.process import Ended, Failure, NoEnd


def test_a_program_is_told_what_it_is_to_read_and_says_what_it_wrote():
    assert process.run(["cat"], "copy", told="a\nb") == "a\nb"
    assert process.run(["cat"], "copy") == ""


def test_an_exit_status_is_no_failure_where_it_is_asked_for():
    ended = process.attempt(["sh", "-c", "echo out; echo error: no >&2; exit 3"], "try")
    assert ended == Ended(3, "out\n", "error: no\n")
    assert ended.reason == "error: no"
    with pytest.raises(Failure, match=r"^try: error: no$"):
        process.run(["sh", "-c", "echo out; echo error: no >&2; exit 3"], "try")


def test_a_program_that_does_not_end_is_killed_and_said_to_be_so():
    with pytest.raises(NoEnd, match=r"^wait: no end within 0.1 s$"):
        process.attempt(["sleep", "60"], "wait", timeout_s=0.1)


def test_a_program_that_is_not_there_is_named():
    with pytest.raises(Failure, match=r"^look: cannot run /nonexistent: No such file"):
        process.attempt(["/nonexistent"], "look")


def test_bytes_that_are_no_text_are_read_all_the_same():
    assert process.run(["printf", r"a\377b"], "print") == "a\N{REPLACEMENT CHARACTER}b"


def test_evidence_that_takes_too_long_says_so_and_costs_nothing_else(monkeypatch):
    monkeypatch.setattr(evidence, "LIMIT_S", 0.1)
    found = evidence.text(lambda: evidence.output("sleep", "60"))
    assert found == "not available: sleep: no end within 0.1 s\n"


def test_a_driver_that_hangs_is_waited_for_as_long_as_was_asked(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(gpus, "_PROGRAMS", (program,))
    with pytest.raises(gpus.Unreadable, match=r"no end within 0.1 s$"):
        gpus.smi("-L", timeout_s=0.1)
