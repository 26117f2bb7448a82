"""What commands find in their environment, whoever logs in; the real pyinfra on this machine."""

import pytest

from tests.unit.test_config import repository, run

__all__ = ["repository", "run"]

TASK = """
from pyinfra.operations import server
server.shell(name="Say", commands=["echo $PATH >path; command -v useradd >found; true"])
"""


@pytest.fixture
def path(run, repository):
    """The PATH of a command on a host with this data, where the login's own has no sbin."""

    def told(**data):
        (repository / "say.py").write_text(TASK)
        (repository / "own.py").write_text(f'hosts = [("@local", {data!r})]\n')
        done = run("own.py", "say.py", "-y", env={"PATH": "/usr/bin:/bin"})
        assert done.returncode == 0, done.stdout
        return (repository / "path").read_text().strip()

    return told


def test_commands_find_the_programs_of_root_where_the_login_does_not(path, repository):
    assert "/usr/sbin" in path().split(":")
    assert (repository / "found").read_text().endswith("sbin/useradd\n")


def test_what_a_hosts_own_data_says_wins(path):
    own = "/opt/mine:/usr/bin:/bin"
    assert path(_env={"PATH": own}) == own
