"""No plan changes a host: every task that there is, on one that serves."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from . import deploys

TASKS = sorted(str(file) for file in Path("tasks").glob("*.py"))
NEEDS = {
    "tasks/adopt.py": ("--data", "adopt=other.service"),
    "tasks/upgrade_vllm.py": ("--data", "max_num_seqs=3"),
}
"""What a task cannot be planned without."""

REASONS = {
    "tasks/report.py": "no report: metrics = False: nothing is recorded",
    "tasks/doctor.py": "is not well, see above",  # after what other tests did to this host
}
"""In which words a task ends with 1 because of the host's state."""

BY_ITSELF = ("/var/lib/vllm/health", "/var/lib/systemd/timers", "/var/log", "/var/lib/private")
"""What changes on a host that serves without anybody doing anything."""

TIMED = ("Id=vllm-watch.service\n", "Id=vllm-kv-prune.service\n")
"""What a timer may have started just now."""


def snapshot(host):
    found = deploys.snapshot(host)
    files = found["files"].items()
    found["files"] = {path: entry for path, entry in files if not path.startswith(BY_ITSELF)}
    show = "systemctl show -p Id,ActiveState,UnitFileState,InvocationID 'vllm*.service'"
    units = deploys.on_host(show, host=host).split("\n\n")
    return found | {"running": [unit for unit in units if not unit.startswith(TIMED)]}


def plan_all(host, folder):
    """How the plan of each task ended on a host, four at a time; `folder` is for what they name."""
    needs = NEEDS | {"tasks/sbom.py": ("--data", f"sbom={folder}/release.cdx.json")}

    def plan(task):
        return deploys.pyinfra(task, "--dry", "--diff", *needs.get(task, ()), host=host)

    with ThreadPoolExecutor(4) as pool:
        return dict(zip(TASKS, pool.map(plan, TASKS), strict=True))


@pytest.fixture(scope="module")
def planned(standin_host, tmp_path_factory):
    """What a host is like before and after, and how each task ended that was planned between."""
    before = snapshot(standin_host)
    ended = plan_all(standin_host, tmp_path_factory.mktemp("sbom"))
    return before, snapshot(standin_host), ended


def test_the_plans_of_all_tasks_leave_the_host_as_it_is(planned):
    before, after, _ = planned
    assert len(before["files"]) > 5000
    assert any(unit.startswith("Id=vllm.service\n") for unit in before["running"])
    for part in before:
        assert before[part] == after[part], part


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_a_plan_or_says_why_it_has_none(planned, task):
    done = planned[2][task]
    assert "Traceback" not in done.stderr
    has_reason = task in REASONS and REASONS[task] in done.stderr
    assert done.returncode == has_reason, done.stderr
