"""The fault table: what comes over a host that serves, and what must hold all the same.

The whole of it is part of `make campaign`; what no other test tries is in `make test`, too.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from . import deploys
from .fault_table import FAULTS, table
from .fault_table.endure import endure, move_out, settle_in
from .host.errors import RehearsalError

REPAIR = "systemctl stop vllm; for link in current previous; do rm -rf /opt/vllm/$link; done"


@pytest.fixture(scope="module")
def host(standin_host):
    """The stand-in's host with a user's own files beside ours, and as it was afterwards."""
    settle_in(standin_host)
    yield standin_host
    move_out(standin_host)
    assert deploys.pyinfra("deploy.py", "-y", host=standin_host).returncode == 0


def case(fault):
    marks = [] if fault.daily else [pytest.mark.campaign]
    return pytest.param(fault, id=fault.name, marks=marks)


def is_in_order(host):
    try:
        found = deploys.hostkit_state(host)
    except RehearsalError:
        return False
    return found["answering"] and found["current"] == found["running"]


@pytest.fixture
def in_order(host):
    """The host, brought into order again where the fault before was not endured."""
    if not is_in_order(host):
        deploys.on_host(REPAIR, host=host)
        done = deploys.pyinfra("deploy.py", "-y", host=host)
        assert done.returncode == 0, done.stderr[-3000:]
    return host


@pytest.mark.parametrize("fault", [case(fault) for fault in FAULTS])
def test_the_host_endures(in_order, fault):
    began, result = time.monotonic(), "**failed**"
    try:
        endure(in_order, fault)
        result = "held"
    finally:
        table.record(fault, result, time.monotonic() - began)


@pytest.mark.campaign
def test_two_operators_deploy_at_once(in_order):
    """Whoever comes second is told to run it again, or finds it done; the server is the same."""
    before = deploys.hostkit_state(in_order)["invocation"]
    told = ("--data", "max_num_seqs=1")
    with ThreadPoolExecutor(2) as pool:
        both = [
            pool.submit(deploys.pyinfra, "deploy.py", "-y", *told, host=in_order) for _ in range(2)
        ]
    done = [each.result() for each in both]
    assert 0 in [each.returncode for each in done], done[0].stderr[-3000:]
    for each in done:
        assert "Traceback" not in each.stderr
        assert each.returncode == 0 or "run this again" in each.stderr, each.stderr[-3000:]
    assert deploys.pyinfra("deploy.py", "-y", *told, host=in_order).returncode == 0
    assert deploys.deploy_json(*told, host=in_order).changed == ()
    assert deploys.hostkit_state(in_order)["invocation"] == before
