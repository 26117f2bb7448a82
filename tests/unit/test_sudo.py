"""sudo's password: it arrives, and is on no command line. sudo itself is imitated."""

import contextlib
import os
import pty
import stat

import pytest

from tests.unit.test_config import ENVIRONMENT, PYINFRA, repository, run

__all__ = ["repository", "run"]

PASSWORD = 'canary: it\'s "quoted" \\ $HOME  '
SUDO = """#!/bin/sh
# Asks its helper as sudo does, writes down what everybody can read of it and its parents, and runs
# the command.
FOLDER="{folder}"
case "$*" in *" -n "*) echo "sudo: a password is required" >&2; exit 1;; esac
told=$("$SUDO_ASKPASS")
printf '%s' "$told" >"$FOLDER/told"
pid=$$
while [ "$pid" -gt 1 ]; do
  tr '\\0' '\\n' <"/proc/$pid/cmdline" >>"$FOLDER/command-lines"
  pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status")
done
while [ "${{1#-}}" != "$1" ]; do shift; done
exec "$@"
"""
TASK = """
from pyinfra.api import StringCommand, operation
from pyinfra.operations import server

@operation(is_idempotent=False)
def told():
    yield StringCommand("cat >stdin", _stdin=["first", "second"])
    yield StringCommand("cat >nothing")

told(name="Say something")
"""


@pytest.fixture
def bin_folder(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    sudo = folder / "sudo"
    sudo.write_text(SUDO.format(folder=folder))
    sudo.chmod(sudo.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.fixture
def task(repository, bin_folder):
    """Writes the inventory, and says what to run pyinfra with."""

    def written(**data):
        (repository / "told.py").write_text(TASK)
        (repository / "own.py").write_text(f'hosts = [("@local", {data | {"_sudo": True}!r})]\n')
        return {"PATH": f"{bin_folder}:{ENVIRONMENT['PATH']}"}

    return written


def assert_told(repository, bin_folder, output):
    """The password and the commands' own input arrived, and it was shown nowhere."""
    assert (bin_folder / "told").read_text() == PASSWORD
    assert (repository / "stdin").read_text() == "first\nsecond\n"
    assert (repository / "nothing").read_text() == ""
    lines = (bin_folder / "command-lines").read_text()
    assert "cat >stdin" in lines
    for shown in (lines, output):
        assert "canary" not in shown


def test_the_password_comes_by_standard_input_before_the_commands_own(
    run, task, repository, bin_folder
):
    env = task(_sudo_password=PASSWORD)
    done = run("own.py", "told.py", "-y", "-vvv", "--debug", env=env)
    assert done.returncode == 0, done.stdout
    assert_told(repository, bin_folder, done.stdout)


@pytest.mark.parametrize(
    "what", [["debug-inventory"], ["told.py", "--debug-operations"], ["told.py", "--json"]]
)
def test_pyinfra_shows_no_password_in_what_it_prints_of_itself(run, task, what):
    done = run("own.py", *what, "--dry", env=task(_sudo_password=PASSWORD))
    assert done.returncode == 0, done.stdout
    assert len(done.stdout) > 200
    assert "canary" not in done.stdout


def test_a_password_that_is_asked_for_comes_in_the_same_way(task, repository, bin_folder):
    env = ENVIRONMENT | task()
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(repository)
        os.execve(PYINFRA, [str(PYINFRA), "own.py", "told.py", "-y", "-vvv", "--debug"], env)
    output = b""
    with contextlib.suppress(OSError):  # the terminal's end
        while part := os.read(terminal, 4096):
            output += part
            if output.endswith(b"sudo password: "):
                os.write(terminal, f"{PASSWORD}\n".encode())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, output.decode()
    os.close(terminal)
    assert_told(repository, bin_folder, output.decode())


WRONG = """#!/bin/sh
case "$*" in *SUDO_ASKPASS*|*"-A"*) ;; *) echo "sudo: a password is required" >&2; exit 1;; esac
echo "Sorry, try again." >&2
echo "sudo: 3 incorrect password attempts" >&2
exit 1
"""


def test_a_wrong_password_is_said_in_one_line(run, task, bin_folder, repository):
    env = task(_sudo_password="wrong")
    (bin_folder / "sudo").write_text(WRONG)
    (repository / "told.py").write_text(
        "from pyinfra import host\nfrom pyinfra.facts.server import Kernel\nhost.get_fact(Kernel)\n"
    )
    done = run("own.py", "told.py", "--dry", env=env)
    assert done.returncode == 1
    assert "sudo does not take this password: run this again and type it anew" in done.stdout
    assert "Sorry" not in done.stdout
    assert "Kernel" not in done.stdout


def test_without_a_terminal_nobody_is_asked_for_a_password(run, task, bin_folder):
    env = task()
    (bin_folder / "sudo").write_text(WRONG)
    done = run("own.py", "told.py", "-y", env=env, own_session=True)
    assert done.returncode == 1, done.stdout
    assert (
        "[@local] sudo asks for a password, and there is no terminal to type it at" in done.stdout
    )
    assert "Traceback" not in done.stdout
