"""The lock on changes of the server: who has it, and what one that died leaves in it."""

import os
import signal
import subprocess
import sys

import pytest

from hostkit.host import lock
from hostkit.host.process import Failure


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "FILE", tmp_path / "run/switch.lock")
    return lock.FILE


HOLD = """
import sys, time
from pathlib import Path
from hostkit.host import lock
lock.FILE = Path(sys.argv[1])
with lock.held("upgrading", "ann@desk"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def other(file):
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": "files/hostkit"},
    )
    assert process.stdout
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_second_is_told_who_does_what_since_when(other):
    told = rf"^ann@desk is upgrading since 20\S+ \S+ UTC \(process {other.pid}\): wait until"
    with pytest.raises(Failure, match=told), lock.held("restarting", "bob@sofa"):
        pass
    assert str(lock.holder()).startswith("ann@desk is upgrading since")
    assert lock.left() is None


def test_a_lock_left_by_a_dead_run_is_none_and_tells_of_it(other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert lock.holder() is None
    left = lock.left()
    assert left is not None
    assert (left.by, left.doing) == ("ann@desk", "upgrading")
    with lock.held("restarting", "bob@sofa") as found:
        assert found == left
    assert lock.left() is None


def test_a_run_that_ended_leaves_nothing(file):
    with lock.held("restarting", "bob@sofa") as left:
        assert left is None
    assert file.read_text() == ""
    with pytest.raises(Failure), lock.held("restarting", "bob@sofa"):
        raise Failure("the server did not start")
    assert lock.left() is None


def test_a_run_that_broke_down_is_known_by_the_next():
    with pytest.raises(ZeroDivisionError), lock.held("restarting", "bob@sofa"):
        raise ZeroDivisionError
    left = lock.left()
    assert left is not None
    assert left.by == "bob@sofa"


def test_a_torn_lock_is_as_good_as_none(file):
    file.parent.mkdir()
    file.write_text('{"by": "an')
    with lock.held("restarting", "bob@sofa") as left:
        assert left is None
