"""No plan changes a host on which nothing has run yet: every task that there is.

Part of `make campaign`; test_3_dry_runs.py does the same on a host that serves.
"""

import pytest

from . import deploys, standin
from .conftest import rehearsal
from .test_3_dry_runs import REASONS, TASKS, plan_all

NAME = "blank"

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """What a fresh host is like before and after, and how each task ended that was planned."""
    rehearsal("up", "--name", NAME, "--fresh")
    standin.furnish(NAME)
    before = deploys.snapshot(NAME)
    ended = plan_all(NAME, tmp_path_factory.mktemp("sbom"))
    yield before, deploys.snapshot(NAME), ended
    rehearsal("down", "--name", NAME)


def test_the_plans_of_all_tasks_leave_the_host_as_it_is(planned):
    before, after, _ = planned
    assert len(before["files"]) > 5000
    for part in before:
        assert before[part] == after[part], part


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_a_plan_or_says_that_nothing_is_there_yet(planned, task):
    done = planned[2][task]
    # The plan of hostkit shows its source, in which the word stands.
    assert "Traceback (most recent call last)" not in done.stderr
    reason = REASONS.get(task, "deploy.py")
    assert done.returncode == 0 or reason in done.stderr, done.stderr[-3000:]
