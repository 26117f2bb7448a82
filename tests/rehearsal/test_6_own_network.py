"""A host with a network of its own, and a decoy on this machine's port of the same number."""

import contextlib

import pytest

from tests.imitation_http import Quiet, serving

from . import deploys
from .conftest import rehearsal
from .host import state


class Decoy(Quiet):
    """Answers everything, and remembers that it was asked."""

    asked: list[str]

    def do_GET(self):
        self.asked.append(self.path)
        self.reply(200, b"{}")

    do_POST = do_GET


@contextlib.contextmanager
def decoy(port):
    Decoy.asked = []
    with serving(Decoy, port):
        yield Decoy.asked


@pytest.fixture
def apart(standin_host):
    rehearsal("up", "--name", standin_host, "--private-network")
    yield standin_host
    rehearsal("up", "--name", standin_host, "--shared-network")
    # Boot has started the server; what comes next finds it serving.
    deploys.on_host("python3 -IB /opt/vllm/hostkit verify --deadline 200", host=standin_host)


def test_nothing_is_asked_of_this_machine(apart):
    """The host has just been booted: the deploy waits for the server that boot has started."""
    with decoy(state.load(apart).api_port) as asked:
        deploy = deploys.pyinfra("deploy.py", "-y", host=apart)
        assert deploy.returncode == 0, deploy.stderr
        restart = deploys.pyinfra("tasks/restart_vllm.py", "-y", host=apart)
        assert restart.returncode == 0, restart.stderr
        assert "Paris" in deploys.ask("What is the capital of France?", host=apart)
        assert asked == []
