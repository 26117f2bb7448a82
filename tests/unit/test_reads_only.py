"""Runs that only look: nobody has to agree to nothing, and every host is looked at."""

import pytest

from tasks.shared import texts
from tests.unit.test_config import repository, run

__all__ = ["repository", "run"]

LOOKS = "from pyinfra import host\nhost.log(f'looked at {host.name}')\n"
FAILS = "from tasks.shared.run import guards\nguards.end_with_failure(host)\n"


def test_a_run_that_plans_nothing_waits_for_nobody(run, repository):
    (repository / "look.py").write_text(LOOKS)
    done = run("inventory.py", "look.py")
    assert done.returncode == 0, done.stdout
    assert "looked at @local" in done.stdout


def test_a_run_that_plans_something_still_waits(run):
    done = run("inventory.py", "touch.py")
    assert done.returncode == 1
    assert "nobody answers the prompt" in done.stdout


@pytest.mark.parametrize("options", [[], ["-y"], ["--dry"]])
def test_a_host_that_fails_a_check_keeps_no_other_from_being_looked_at(run, repository, options):
    (repository / "look.py").write_text(LOOKS + FAILS)
    done = run("pair.py", "look.py", *options)
    assert done.returncode == 1
    assert "looked at @fake/one" in done.stdout
    assert "looked at @fake/two" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("a.zip", "must end with .tar.gz"),
        ("there.tar.gz", "is there already: name another file"),
        ("none/a.tar.gz", "there is no folder"),
        ("a\n.tar.gz", "must be one line"),
    ],
)
def test_an_archive_is_refused_where_none_can_be_written(tmp_path, name, wrong):
    (tmp_path / "there.tar.gz").touch()
    with pytest.raises(ValueError, match=wrong):
        texts.new_archive(str(tmp_path / name))
    assert texts.new_archive(str(tmp_path / "a.tar.gz")).endswith("/a.tar.gz")
    with pytest.raises(ValueError, match=r"must end with \.cdx\.json"):
        texts.new_bill(str(tmp_path / "a.tar.gz"))
    assert texts.new_bill(str(tmp_path / "a.cdx.json")).endswith("/a.cdx.json")
