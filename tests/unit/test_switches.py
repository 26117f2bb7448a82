"""How a task's switch reaches hostkit: by its own command line, read by its own parser."""

import argparse

import pytest

from hostkit.lifecycle import switch as hostkits
from tasks.shared.generation import switches


def order(switch):
    """What hostkit makes of it for generation 7."""
    parser = argparse.ArgumentParser()
    hostkits.register(parser.add_subparsers())
    return hostkits._order(parser.parse_args(switch.arguments(7)))


def test_a_restart_takes_over_what_the_settings_say_of_waiting(make):
    settings = make(idle_wait_s=40, ready_timeout_s=900, kv_pool_tolerance=7, bench_gate=5.0)
    found = order(switches.switch(settings, "restarting the server"))
    assert found == hostkits.Order(
        generation=7,
        deadline_s=900,
        wait_s=40,
        by=switches.operator(),
        doing="restarting the server",
        pool_tolerance=7,
    )
    assert "@" in found.by


@pytest.mark.parametrize("force", ["yes", "no"])
def test_a_busy_server_is_stopped_by_force_alone(make, force):
    assert order(switches.switch(make(force=force), "x")).force == (force == "yes")


@pytest.mark.parametrize(
    ("changes", "quality", "gate"),
    [
        ({}, True, None),
        ({"quality_check": False}, False, None),
        ({"bench_gate": 2.5}, True, 2.5),
        ({"quality_check": False, "bench_gate": 12.0}, False, 12.0),
    ],
)
def test_an_upgrade_compares_what_the_settings_ask_for_and_goes_back(make, changes, quality, gate):
    switch = switches.switch(make(**changes), "upgrading", go_back=True, compare=True)
    found = order(switch)
    assert (found.go_back, found.quality, found.bench_gate) == (True, quality, gate)


def test_a_way_back_compares_nothing(make):
    found = order(switches.switch(make(bench_gate=2.5), "rolling back", go_back=True))
    assert (found.go_back, found.quality, found.bench_gate) == (True, False, None)
