"""A host may print bytes that are no UTF-8; over SSH tests/rehearsal/fault_table/ tries it."""

from tests.unit.test_config import repository, run

__all__ = ["repository", "run"]

TASK = """
from pyinfra.api import FactBase
from pyinfra.context import host
from pyinfra.operations import server

class Names(FactBase):
    def command(self):
        return r"printf 'a\\377b\\nlast\\n'"

    def process(self, output):
        return list(output)

server.shell(commands=["echo " + "+".join(host.get_fact(Names)).encode().hex()])
server.shell(commands=[r"printf 'x\\377y\\n'; seq 100000 | tail -n 1"])
"""


def test_bytes_that_are_no_text_are_replaced_and_what_follows_them_is_read(run, repository):
    (repository / "own.py").write_text('hosts = ["@local"]\n')
    (repository / "told.py").write_text(TASK)
    done = run("own.py", "told.py", "-y", "-vvv")
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    assert "a\ufffdb+last".encode().hex() in done.stdout
    assert "x\ufffdy" in done.stdout
    assert "100000" in done.stdout
