"""A rehearsal host for the tests: made fresh for a session, removed at its end."""

import os
import subprocess
import sys

import pytest

from . import deploys, standin
from .host import state

HOST = "test"
STANDIN = "standin"


def rehearsal(*arguments: str) -> None:
    command = [sys.executable, "-m", "tests.rehearsal", *arguments]
    done = subprocess.run(
        command, cwd=state.REPOSITORY, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def fresh_host():
    """The name of a host on which nothing has run yet.

    For work on single tests REHEARSAL_KEEP=1 leaves it up, and takes it as it is the next time.
    """
    keep = bool(os.environ.get("REHEARSAL_KEEP"))
    rehearsal("up", "--name", HOST, *([] if keep else ["--fresh"]))
    rehearsal("model")
    yield HOST
    if not keep:
        rehearsal("down", "--name", HOST)


@pytest.fixture(scope="session")
def deployed(fresh_host):
    """The same host with a server that answers: planned, read, and confirmed with Enter."""
    done = deploys.pyinfra("deploy.py", host=fresh_host, answer="\n")
    assert done.returncode == 0, done.stderr[-4000:]
    return fresh_host


@pytest.fixture(scope="session")
def standin_host():
    """The name of a second host, deployed with a stand-in for vLLM (standin/), and serving."""
    keep = bool(os.environ.get("REHEARSAL_KEEP"))
    rehearsal("up", "--name", STANDIN, *([] if keep else ["--fresh"]))
    standin.furnish(STANDIN)
    done = deploys.pyinfra("deploy.py", "-y", host=STANDIN)
    assert done.returncode == 0, done.stderr[-4000:]
    yield STANDIN
    if not keep:
        rehearsal("down", "--name", STANDIN)
