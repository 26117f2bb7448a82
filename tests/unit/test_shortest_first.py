"""How a step's prefill tokens are dealt: the decisions that need no vLLM."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortest_first import dealing, versions
from shortest_first.dealing import Debt, Prompt, Vain, deal, in_turn, oldest

PROMPTS = st.lists(
    st.builds(
        Prompt,
        key=st.text(min_size=1, max_size=4),
        arrival=st.floats(0, 100),
        remaining=st.integers(1, 20000),
        answering=st.booleans(),
    ),
    unique_by=lambda prompt: prompt.key,
    max_size=12,
)
BLOCK = 1584


def all_of_it(_prompt, offered):
    return offered


def whole_blocks(prompt, offered):
    """vLLM's rule for a hybrid model: a chunk ends at a block's boundary or at the prompt's end."""
    return offered if offered >= prompt.remaining else offered // BLOCK * BLOCK


@given(PROMPTS, st.integers(0, 4096), st.sampled_from([all_of_it, whole_blocks]))
def test_no_more_is_dealt_than_there_is_and_nothing_is_held_back(prompts, room, takes):
    turns = in_turn(prompts)
    offers = deal(turns, room, takes)
    taken = {p.key: takes(p, min(offers[p.key], p.remaining)) for p in turns}
    assert sum(taken.values()) <= room
    if takes is all_of_it:
        assert sum(taken.values()) == min(room, sum(p.remaining for p in prompts))


@given(PROMPTS)
def test_a_shorter_prompt_is_never_behind_a_longer_one_of_its_kind(prompts):
    turns = in_turn(prompts)
    assert sorted(turns, key=lambda p: p.key) == sorted(prompts, key=lambda p: p.key)
    for before, after in pairwise(turns):
        assert before.answering >= after.answering
        if before.answering == after.answering:
            assert before.remaining <= after.remaining


def test_begun_answers_come_first_then_the_one_that_is_due():
    a, b, c = Prompt("a", 0, 9000), Prompt("b", 1, 10), Prompt("c", 2, 500, answering=True)
    assert in_turn([a, b, c]) == [c, b, a]
    assert in_turn([a, b, c], due=a) == [c, a, b]


def test_prompts_of_one_length_come_by_age():
    late, early = Prompt("a", 5, 100), Prompt("b", 1, 100)
    assert in_turn([late, early]) == [early, late]
    assert oldest([late, early]) == early
    assert oldest([]) is None


def test_a_long_prompt_of_a_hybrid_model_leaves_the_room_that_a_short_one_needs():
    short, long = Prompt("short", 1, 700), Prompt("long", 0, 16000)
    offers = deal(in_turn([long, short]), 2048, whole_blocks)
    assert offers == {"short": 2048, "long": 1348}
    assert whole_blocks(long, offers["long"]) == 0
    tiny = Prompt("tiny", 1, 400)
    offers = deal(in_turn([long, tiny]), 2048, whole_blocks)
    assert whole_blocks(long, offers["long"]) == BLOCK


def overloaded(steps, tokens=2048):
    """Steps that the oldest prompt gets while shorter ones would take every step whole."""
    debt, served = Debt(tokens), 0
    for _ in range(steps):
        received = tokens if debt.is_due else 0
        served += bool(received)
        debt.settle(received)
    return served


def test_the_oldest_prompt_gets_a_quarter_of_the_steps_whatever_arrives():
    assert dealing.OLDEST_SHARE == 4
    assert abs(overloaded(400) - 100) <= 1


@given(st.lists(st.integers(0, 2048), max_size=200))
def test_what_the_oldest_gets_anyway_is_not_owed_twice(received):
    debt = Debt(2048)
    for tokens in received:
        debt.settle(tokens)
    debt.settle(2048)
    assert not debt.is_due


def test_room_left_in_vain_is_left_ever_more_rarely():
    vain = Vain()
    tried = []
    for step in range(60):
        if vain.is_worth_it("first", step):
            tried.append(step)
            vain.settle("first", step, taken=False)
    gaps = [b - a for a, b in pairwise(tried)]
    assert gaps[:4] == [2, 3, 5, 9]
    assert set(gaps[4:]) == {9}


@pytest.mark.parametrize("change", ["another is first", "something ended", "one was admitted"])
def test_room_is_left_again_at_once_when_something_has_changed(change):
    vain = Vain()
    for step in (1, 3, 6):
        vain.settle("first", step, taken=False)
    assert not vain.is_worth_it("first", 7)
    if change == "something ended":
        vain.reset()
    elif change == "one was admitted":
        vain.settle("first", 7, taken=True)
    assert vain.is_worth_it("another" if change == "another is first" else "first", 7)


@pytest.mark.parametrize("version", ["0.31.0", "0.30.0", "0.31.0+cpu.patched.00123456789a"])
def test_a_version_that_was_checked_is_accepted(version):
    versions.check(version)


@pytest.mark.parametrize("version", ["0.31.1", "0.29.0", "0.31.0rc1", "1.0+0.31.0"])
def test_a_version_that_was_not_checked_is_refused_in_one_line(version):
    with pytest.raises(ImportError, match=rf"this is {version.replace('+', '.')}: leave") as caught:
        versions.check(version)
    assert "\n" not in str(caught.value)
