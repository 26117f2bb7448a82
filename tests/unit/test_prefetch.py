"""Facts that are asked together, seen by a user of the real pyinfra command."""

import subprocess

import pytest
from pyinfra.api import StringCommand

from tasks.shared.run import prefetch
from tests.unit.test_config import repository
from tests.unit.test_config import run as pyinfra

__all__ = ["pyinfra", "repository"]

# A fact that says what is asked, and an operation that tells it and changes nothing.
TELLS = """
from pyinfra import host
from pyinfra.api import FactBase, operation
from pyinfra.operations import files, server

class Said(FactBase):
    def command(self, script):
        return script

@operation()
def tell(script):
    host.log(f"told: {host.get_fact(Said, script=script)}")
    return
    yield
"""


@pytest.fixture
def run(pyinfra, repository):
    """Deploy a file's text to this machine; its output, and how many commands were run on it."""

    def deploy(text, option="-y", status=0):
        (repository / "deploy.py").write_text(TELLS + text)
        done = pyinfra("@local", "deploy.py", option, "-vvv")
        assert done.returncode == status, done.stdout
        return done.stdout, done.stdout.count("[@local] >>> sh -c")

    return deploy


def test_a_run_without_a_change_asks_once_for_each_step_that_depends_on_another(run, tmp_path):
    for number in range(20):
        (tmp_path / f"{number}").write_text("as it was\n")
    output, commands = run(f"""
from io import StringIO
for number in range(20):
    files.put(src=StringIO("as it was\\n"), dest=f"{tmp_path}/{{number}}", mode="644")
files.directory(path="{tmp_path}")
""")
    assert output.count("[@local] No changes") == 21
    assert commands == 2, "first the files, then the hashes of those that are there"


def test_a_plan_asks_as_few_times_and_finds_the_same(run, tmp_path):
    for number in range(20):
        (tmp_path / f"{number}").write_text(f"as it {'is' if number == 7 else 'was'}\n")
    output, commands = run(
        f"""
from io import StringIO
for number in range(20):
    name = f"Write {{number}}"
    files.put(name=name, src=StringIO("as it was\\n"), dest=f"{tmp_path}/{{number}}", mode="644")
""",
        "--dry",
    )
    changes = [line.split() for line in output.splitlines() if line.strip().startswith("Write ")]
    assert [words[1] for words in changes if words[2] != "-"] == ["7"]
    assert len(changes) == 20
    assert commands == 4, "the files, their folder, the hashes, where to upload the one to"


def test_what_an_operation_says_in_a_plan_is_said_once(run):
    output, _ = run("tell('echo one')\ntell('echo why >&2; exit 3')\n", "--dry", status=1)
    assert output.count("told: one") == 1
    assert output.count("this host could not be asked") == 1


def test_what_several_operations_leave_open_is_said_once(run):
    output, _ = run(
        """
from tasks.shared.operations.common import leave_open

@operation()
def open_for_lack_of(script):
    yield from leave_open(host.get_fact(Said, script=script))

for number in range(3):
    open_for_lack_of("echo a reason")
""",
        "--dry",
    )
    assert output.count("a reason; this plan says nothing") == 1


def test_a_fact_is_asked_again_after_any_command(run, tmp_path):
    output, _ = run(f"""
files.file(path="{tmp_path}/new", present=False)
server.shell(commands="touch {tmp_path}/new")
files.file(path="{tmp_path}/new", present=False)
""")
    assert output.count("[@local] No changes") == 1
    assert output.count("[@local] Success") == 2
    assert not (tmp_path / "new").exists()


def test_an_answer_that_is_old_is_asked_again(run, tmp_path):
    (tmp_path / "number").write_text("0\n")
    count = f"n=$(($(cat {tmp_path}/number) + 1)); echo $n | tee {tmp_path}/number"
    assert "told: 1" in run(f"tell('{count}')\n")[0]
    old = "from tasks.shared.run import prefetch\nprefetch.GOOD_FOR_S = 0\n"
    told = run(f"{old}tell('{count}')\n")[0]
    assert f"told: {(tmp_path / 'number').read_text()}" in told, "the last answer there was"


def test_what_fails_among_others_fails_as_by_itself(run):
    output, _ = run("tell('echo one')\ntell('echo why >&2; exit 3')\n", status=1)
    assert "told: one" in output
    assert "why" in output
    assert "this host could not be asked" in output


def test_each_is_asked_in_its_own_environment(run):
    output, _ = run("""
for value in ("one", "two"):
    tell("echo $VALUE", _env={"VALUE": value})
""")
    assert output.index("told: one") < output.index("told: two")


def test_an_operation_that_raises_does_so_at_its_turn(run, tmp_path):
    output, _ = run(
        f"""
@operation()
def unlucky():
    raise OSError("no such luck")
    yield

server.shell(commands="touch {tmp_path}/before")
unlucky()
""",
        status=1,
    )
    assert "no such luck" in output
    assert (tmp_path / "before").exists()


def test_what_pyinfras_own_operations_refuse_is_one_line(run, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    output, _ = run(f"files.directory(path='{tmp_path}/link', mode='750')\n", status=1)
    assert f"{tmp_path}/link exists and is not a directory: move it away" in output
    assert "Traceback" not in output


def test_nothing_is_said_of_the_look_ahead(run):
    output, _ = run("tell('echo one')\n")
    assert output.count("told: one") == 1


@pytest.mark.parametrize("text", ["", "a", "a\\n", "a\\n\\n", "\\n", "\\n\\na", "a\\n b"])
def test_the_output_of_each_command_is_what_it_is_by_itself(text):
    commands = [StringCommand(f"printf '{each}'") for each in ("before\\n", text, "after")]
    commands.insert(1, StringCommand("echo failing; exit 7"))
    together = prefetch.together(commands, "MARK").get_raw_value()
    alone, all_of_them = (
        subprocess.run(["sh", "-c", each], capture_output=True, text=True, check=True).stdout
        for each in (commands[2].get_raw_value(), together)
    )
    found = prefetch.apart(all_of_them.splitlines(), "MARK")
    assert found == [["before"], None, alone.splitlines(), ["after"]]


def test_a_secret_in_a_question_stays_hidden():
    from pyinfra.api import HiddenValue

    command = StringCommand("echo", HiddenValue("canary"))
    assert "canary" not in str(prefetch.together([command], "MARK"))
    assert "canary" in prefetch.together([command], "MARK").get_raw_value()
