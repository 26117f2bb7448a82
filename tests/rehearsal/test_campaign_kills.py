"""Deploys killed at every operation and at twenty random moments: the next one comes out right.

Part of `make campaign`. A host is made for each test, and nothing has run on it.
"""

import json
import random

import pytest

from . import deploys
from .conftest import rehearsal

HOST = "campaign"
SEED = 20261129
# A first deploy takes about so long with a full download cache.
LONGEST_S = 100.0

pytestmark = pytest.mark.campaign


@pytest.fixture
def host():
    rehearsal("up", "--name", HOST, "--fresh")
    rehearsal("model")
    yield HOST
    rehearsal("down", "--name", HOST)


def converges(host):
    """A deploy ends with an answer, the next one has nothing to do, and no remains lie about."""
    done = deploys.pyinfra("deploy.py", "-y", host=host)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Paris" in deploys.ask("What is the capital of France?", host=host)
    totals = deploys.deploy_json(host=host)
    assert (totals.changed, totals.error) == ((), 0)
    remains = (
        "ls -Ad /opt/vllm/work/* /opt/vllm/*/*.new /opt/vllm/generations/candidate-* "
        "/opt/vllm/*/.removed-* /var/lib/vllm/models/*.new 2>/dev/null"
    )
    assert deploys.on_host(remains, host=host, check=False) == ""


def test_killed_as_each_operation_begins(host):
    """Each deploy does the operation that the one before was killed at, and is killed at the next.

    The first has the whole way before it, the last only the question to the server.
    """
    plan = deploys.pyinfra("deploy.py", "--dry", "--json", host=host)
    names = [entry["name"] for entry in json.loads(plan.stdout)["plan"]]
    assert len(names) > 15
    for name in names:
        assert deploys.deploy_and_kill(host, deploys.at_operation(name)), name
    converges(host)


@pytest.mark.parametrize("case", range(20))
def test_killed_at_a_random_moment(host, case):
    moment = random.Random(SEED + case).uniform(0, LONGEST_S)
    killed = deploys.deploy_and_kill(host, lambda _line, elapsed: elapsed > moment)
    print(f"killed after {moment:.1f} s" if killed else f"ended before {moment:.1f} s")
    converges(host)
