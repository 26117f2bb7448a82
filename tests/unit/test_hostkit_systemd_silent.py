"""A systemd that does not answer: what runs is not known, so nothing is taken to be stopped.

Imitated by a systemctl that fails as the real one does when nobody answers it in time.
"""

import pytest

from hostkit import cli
from hostkit.generation import generations
from hostkit.health import state
from hostkit.host import jobs, lock, paths, units
from hostkit.host.process import Failure
from hostkit.lifecycle import service, switch
from hostkit.serving import idle

SAID = "Failed to get properties: Connection timed out"
TOLD = f"systemd does not answer: {SAID}"


@pytest.fixture
def silent(tmp_path, monkeypatch):
    """Makes it silent, and lets it answer again: called with what systemctl does."""
    monkeypatch.setattr(units, "BOOTED", tmp_path)
    monkeypatch.setattr(lock, "FILE", tmp_path / "run/switch.lock")
    program = tmp_path / "systemctl"

    def systemctl(does):
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    systemctl(f"echo '{SAID}' >&2; exit 1")
    return systemctl


def answer(silent):
    silent("echo ActiveState=inactive; echo MainPID=0")


def test_the_state_of_the_host_is_not_known(silent):
    with pytest.raises(Failure, match=TOLD):
        state.state()
    answer(silent)
    assert state.state()["active"] == "inactive"


def test_a_host_that_systemd_does_not_run_has_nothing_that_runs(silent, monkeypatch, tmp_path):
    monkeypatch.setattr(units, "BOOTED", tmp_path / "none")
    assert state.state()["active"] == ""


def test_a_server_counts_as_used(silent):
    assert idle.busy() == f"cannot tell whether it is idle ({TOLD})"
    answer(silent)
    assert idle.busy() is None


def test_a_job_is_not_taken_for_one_that_died(silent, capsys):
    with pytest.raises(Failure, match=TOLD):
        jobs.status("build-x")
    assert cli.main(["job", "status", "build-x"]) == 1
    assert capsys.readouterr().err == f"hostkit: {TOLD}\n"
    answer(silent)
    assert jobs.status("build-x")["state"] == "absent"


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """The generations whose units were installed; nothing is current."""
    done: list[int] = []
    monkeypatch.setattr(switch, "install_unit", done.append)
    monkeypatch.setattr(paths, "CURRENT", tmp_path / "current")
    return done


def test_a_lost_current_is_not_given_up_without_a_word(silent, installed):
    with pytest.raises(Failure, match=TOLD):
        service.install_unit()
    answer(silent)
    assert service.install_unit() == 0
    assert installed == []


def test_a_unit_is_put_right_without_asking_what_runs(silent, installed, monkeypatch):
    monkeypatch.setattr(generations, "linked", lambda _link: 3)
    assert service.install_unit() == 0
    assert installed == [3]
