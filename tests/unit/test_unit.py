"""The unit: its start limit can be reached, and nothing in it breaks what it guards."""

import pytest
from pydantic import ValidationError

from tasks.shared import templates
from tasks.shared.engine import needs, start_limit

BREAKS_VLLM = ["MemoryDenyWriteExecute=", "ProcSubset=", "~@resources", "PrivateDevices="]


def directives(unit):
    return [line for line in unit.splitlines() if line and not line.startswith("#")]


def test_the_start_limit_can_be_reached_however_long_a_start_takes(make):
    settings = make(start_limit_burst=4, restart_delay_s=7, gate_wait_s=3, ready_timeout_s=100)
    assert start_limit.interval_s(settings) == 4 * 110 * 11 // 10 + 1


def test_a_failing_start_that_was_measured_makes_the_limit_shorter(make):
    settings = make(start_limit_burst=3, restart_delay_s=20, gate_wait_s=0)
    measured = settings.model_copy(update={"slowest_failing_start_s": 60})
    assert start_limit.interval_s(measured) == 3 * 80 * 11 // 10 + 1
    assert start_limit.interval_s(measured) < start_limit.interval_s(settings)


FAILS_AFTER_60 = {
    "start_limit_burst": 3,
    "restart_delay_s": 20,
    "gate_wait_s": 0,
    "slowest_failing_start_s": 60,
}


def test_a_limit_that_would_never_be_reached_is_refused(make):
    with pytest.raises(
        ValidationError, match=r"start_limit_interval_s \(264\) must be at least 265"
    ):
        make(**FAILS_AFTER_60, start_limit_interval_s=264)
    assert start_limit.interval_s(make(**FAILS_AFTER_60, start_limit_interval_s=265)) == 265
    assert start_limit.interval_s(make(**FAILS_AFTER_60, start_limit_interval_s=600)) == 600


def test_with_no_failing_start_on_record_the_deadline_of_a_start_counts(make):
    with pytest.raises(ValidationError, match="start_limit_interval_s"):
        make(**FAILS_AFTER_60 | {"slowest_failing_start_s": None}, start_limit_interval_s=600)


def test_start_limits_stand_in_the_unit_section(make):
    head, _, service = templates.unit(make()).partition("[Service]")
    assert "StartLimitBurst=3" in head
    assert f"StartLimitIntervalSec={start_limit.interval_s(make())}" in head
    assert "StartLimit" not in service.replace("# ", "")


@pytest.mark.parametrize("changes", [{}, {"wsl2": False}, {"kv_ssd_gb": 0}])
def test_the_unit_holds_nothing_that_vllm_does_not_live_with(make, changes):
    lines = directives(templates.unit(make(**changes)))
    assert [line for line in lines if any(each in line for each in BREAKS_VLLM)] == []
    (families,) = [line for line in lines if line.startswith("RestrictAddressFamilies=")]
    assert {"AF_UNIX", "AF_NETLINK"} < set(families.partition("=")[2].split())


def test_the_gate_is_told_what_a_generation_takes(make):
    told = needs.needs(make())
    assert (told["gpus"], told["gpu_memory_utilization"]) == (2, 0.89)
    assert told["locked_bytes"] == 2 * 1024**3
    assert told["shm_bytes"] > 2 * 1024**3
    assert told["kv_dir"] == "/var/lib/vllm/kv"
    less = needs.needs(make(accelerator="cpu", kv_ram_gib=0, kv_ssd_gb=0))
    assert not {"gpus", "kv_dir"} & less.keys()
    assert less["locked_bytes"] == 0
