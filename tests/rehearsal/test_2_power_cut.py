"""Power cut between any two steps of a switch: the next boot serves what was verified last."""

import pytest

from . import deploys, switching
from .conftest import rehearsal
from .switching import HOSTKIT, remains, serving, switch, variant

STEPS = 60
"""More than a switch has; each renames, removes or syncs a file, or asks systemd for something."""


def cut_at(host, step):
    """Cut the power before that step of a switch to a new generation, and boot; what was said."""
    good = deploys.hostkit_state(host)["running"]
    number = variant(host, good, STANDIN_START_S="0.3")
    said = switching.stop_before_step(host, step, number, "--go-back")
    verified = deploys.on_host(
        f"ls /opt/vllm/generations/{number}/verified", host=host, check=False
    )
    rehearsal("power-cut", "--name", host)
    deploys.on_host(
        f"for i in $(seq 60); do {HOSTKIT} probe 2>/dev/null && break; sleep 0.3; done", host=host
    )
    assert serving(host) == (number if verified else good), said
    found = deploys.hostkit_state(host)
    assert found["current"] == found["running"], said
    assert found["generations"][str(found["current"])]["verified"], said
    assert found["unit_in_force"], said
    assert remains(host) == "", said
    return said


@pytest.mark.parametrize("step", [9, 13, 17])
def test_after_a_power_cut_the_last_verified_generation_serves(standin_host, step):
    """While `current` has moved, while the new one is being tried, as it is verified."""
    assert cut_at(standin_host, step).startswith(f"before step {step}:")


@pytest.mark.campaign
def test_after_a_power_cut_at_every_step_the_last_verified_generation_serves(standin_host):
    for step in range(1, STEPS):
        said = cut_at(standin_host, step)
        print(said)
        if said.startswith("done"):
            break
    else:
        pytest.fail(f"a switch has more than {STEPS} steps")
    assert step > 10
    assert switch(standin_host, deploys.hostkit_state(standin_host)["running"])[0] == 0
