"""What an operator sees of a run, and of a mistake of theirs: the real pyinfra, on this machine."""

import pytest

from tests.unit.test_config import assert_refused, repository, run

__all__ = ["repository", "run"]

FOLDERS = """
from pyinfra.operations import files
for name in {names!r}:
    files.directory(name=f"Make {{name}}", path=name)
"""
TREE = """
from tasks.shared.operations import trees
trees.folder(name="Send it", path="there", tree={tree!r})
"""


@pytest.fixture
def folders(repository):
    """Two folders are asked for, one of which is there."""
    (repository / "old").mkdir()
    (repository / "folders.py").write_text(FOLDERS.format(names=["old", "new"]))


def sends(repository, **files):
    (repository / "tree.py").write_text(TREE.format(tree=files))


def test_a_plan_lists_what_changes_and_counts_the_rest(run, folders):
    done = run("inventory.py", "folders.py", "--dry")
    assert done.returncode == 0, done.stdout
    plan = done.stdout.split("--> Detected changes:")[1]
    assert "Make new" in plan
    assert "Make old" not in plan
    assert "1 of 2 operations: nothing to change" in plan


def test_verbosely_a_plan_lists_everything(run, folders):
    plan = run("inventory.py", "folders.py", "--dry", "-v").stdout.split("--> Detected changes:")[1]
    assert "Make new" in plan
    assert "Make old" in plan
    assert "nothing to change" not in plan


def test_the_results_list_what_changed_and_count_the_rest(run, folders, repository):
    done = run("inventory.py", "folders.py", "-y")
    assert done.returncode == 0, done.stdout
    results = done.stdout.split("--> Results:")[1]
    assert "Make new" in results
    assert "Make old" not in results
    assert "1 of 2 operations: nothing to change" in results
    assert (repository / "new").is_dir()


def test_what_failed_is_in_the_results(run, repository):
    (repository / "false.py").write_text(
        'from pyinfra.operations import server\nserver.shell(name="Fail", commands=["false"])\n'
    )
    done = run("inventory.py", "false.py", "-y")
    assert done.returncode == 1
    assert "Fail" in done.stdout


def test_a_run_that_only_looks_ends_without_a_question(run, repository):
    (repository / "look.py").write_text("print('looked')\n")
    done = run("inventory.py", "look.py")
    assert done.returncode == 0, done.stdout
    assert "Press enter" not in done.stdout
    assert "Results" not in done.stdout
    assert done.stdout.count("\n") < 16


def test_a_small_folder_is_shown_in_full(run, repository):
    sends(repository, a="one\n", b="two\n")
    shown = run("inventory.py", "tree.py", "--dry", "--diff").stdout
    assert "Will create there/a" in shown
    assert "+ two" in shown


def test_of_a_long_folder_the_plan_shows_how_much_of_it_is_new(run, repository):
    sends(repository, long="line\n" * 5000, short="x\n")
    shown = run("inventory.py", "tree.py", "--dry", "--diff").stdout
    assert "Will create there: 2 files, 5001 lines; -v shows them" in shown
    assert "long: +5000 -0" in shown
    assert "+ line" not in shown
    assert "+ line" in run("inventory.py", "tree.py", "--dry", "--diff", "-v").stdout


def test_of_a_changed_long_folder_it_shows_how_many_lines_change(run, repository):
    sends(repository, long="line\n" * 300, same="x\n" * 300)
    assert run("inventory.py", "tree.py", "-y").returncode == 0
    sends(repository, long="line\n" * 10 + "other\n" * 200, same="x\n" * 300)
    shown = run("inventory.py", "tree.py", "--dry", "--diff").stdout
    assert "Will change there: 1 files, 210 lines" in shown
    assert "long: +200 -290" in shown
    assert "same" not in shown


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("wsl2 = true\n", "group_data/all.py, line 1: name 'true' is not defined"),
        ("a = 1\nport = 80OO\n", "group_data/all.py, line 2: invalid decimal literal: port = 80OO"),
    ],
)
def test_a_broken_settings_file_is_named_with_the_line(run, repository, text, line):
    (repository / "group_data").mkdir()
    (repository / "group_data/all.py").write_text(text)
    assert_refused(run("inventory.py", "touch.py", "-y"), repository, line)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('hosts = [("a", {"b": 1})\n', "broken.py, line 1: '[' was never closed"),
        ("hosts = [me]\n", "broken.py, line 1: name 'me' is not defined"),
    ],
)
def test_a_broken_inventory_is_named_with_the_line(run, repository, text, line):
    (repository / "broken.py").write_text(text)
    assert_refused(run("broken.py", "touch.py", "-y"), repository, line)


def test_a_fault_of_a_task_keeps_its_traceback(run, repository):
    (repository / "faulty.py").write_text("import nothing_of_that_name\n")
    assert "Traceback" in run("inventory.py", "faulty.py", "--dry").stdout


def test_a_data_without_a_value_is_refused(run, repository):
    done = run("inventory.py", "touch.py", "-y", "--data", "gpus")
    assert_refused(done, repository, "--data gpus: has no value, expected --data gpus=VALUE")


def test_what_a_task_refuses_is_said_without_the_place_in_our_code(run, repository):
    (repository / "refuse.py").write_text(
        "from pyinfra.api.exceptions import DeployError\nraise DeployError('not this host')\n"
    )
    done = run("inventory.py", "refuse.py", "--dry")
    assert_refused(done, repository, "--> error: not this host")
    assert "refuse.py line" not in done.stdout


def test_a_question_that_a_host_cannot_answer_is_not_called_by_our_name_for_it(run, repository):
    (repository / "asks.py").write_text(
        "from pyinfra import host\nfrom pyinfra.api import FactBase\n"
        "class OurName(FactBase):\n"
        "    def command(self): return 'echo no such device >&2; exit 1'\n"
        "host.get_fact(OurName)\n"
    )
    done = run("inventory.py", "asks.py", "--dry")
    assert_refused(done, repository, "No hosts remaining!")
    assert "no such device" in done.stdout
    assert "this host could not be asked: what it said stands above" in done.stdout
    assert "OurName" not in done.stdout
