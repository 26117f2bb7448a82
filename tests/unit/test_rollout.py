"""The order in which hosts are switched."""

import pytest
from pyinfra.api.exceptions import DeployError

from tasks.shared.generation.rollout import Batch, agreed, divide

HOSTS = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("canary", "named", "order"),
    [
        (None, [], [("a",), ("b",), ("c",)]),
        ("c", [], [("c",), ("a",), ("b",)]),
        (None, [["b", "c"]], [("b", "c"), ("a",)]),
        ("b", [["a", "b", "c"]], [("b",), ("a", "c")]),
        ("elsewhere", [["also", "a"]], [("a",), ("b",), ("c",)]),
    ],
)
def test_the_canary_goes_first_then_the_batches_then_each_other_host(canary, named, order):
    assert [batch.hosts for batch in divide(HOSTS, canary, named)] == order


def test_a_host_in_two_batches_is_refused():
    with pytest.raises(DeployError, match="rollout names b twice"):
        divide(HOSTS, None, [["a", "b"], ["b", "c"]])


def test_hosts_that_want_to_be_switched_in_another_order_are_refused(make):
    first, second = make(canary="a", rollout=[["b", "c"]]), make(canary="a")
    assert agreed({"a": first, "b": first}) == ("a", [["b", "c"]])
    with pytest.raises(DeployError, match="for all hosts: b has its own"):
        agreed({"a": first, "b": second})


def test_an_operation_says_whose_turn_it_is_when_there_are_several_hosts():
    titles = [batch.title("Restart") for batch in divide(HOSTS, None, [["a", "b"]])]
    assert titles == ["Restart: a, b (1 of 2)", "Restart: c (2 of 2)"]
    assert Batch(("a",), 1, 1).title("Restart") == "Restart"
