"""Each fault of faults.py alone: named, and nothing else, until it is gone. One remedy, followed.

Part of `make campaign`.
"""

import pytest

from . import deploys
from .faults import FAULTS, assert_healthy, doctor, is_named, plant, remove, rows

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module", autouse=True)
def by_its_settings(standin_host):
    deploys.serve_by_settings(standin_host)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_each_fault_alone_is_all_that_is_named_until_it_is_gone(standin_host, fault):
    plant(standin_host, fault)
    try:
        done = doctor(standin_host)
    finally:
        remove(standin_host, fault)
    found = rows(done.stderr)
    assert is_named(fault, found), done.stderr
    assert {what.split(" ")[0] for _, what, _ in found} == {fault.what.split(" ")[0]}
    assert done.returncode == (1 if fault.level == "problem" else 0)
    assert_healthy(standin_host)


def test_the_remedy_for_a_damaged_release_mends_it(standin_host):
    """As the doctor says: stop, remove the release, deploy."""
    module = FAULTS[0]
    plant(standin_host, module)
    release = deploys.on_host("readlink -f /opt/vllm/current/release", host=standin_host)
    deploys.on_host(f"systemctl stop vllm && rm -r {release}", host=standin_host)
    done = deploys.pyinfra("deploy.py", "-y", host=standin_host)
    assert done.returncode == 0, done.stderr
    assert_healthy(standin_host)
