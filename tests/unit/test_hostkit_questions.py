"""The quality check's questions: their answers are in the texts, and are recognised."""

import re

import pytest

from hostkit.measure import quality, questions
from hostkit.measure.questions import Question


def numbers_about(question):
    """The figures that the text gives for whom or what the question is about."""
    text, asked = question.text.rsplit("\n\n", 1)
    who = re.search(r"did (\w+)", asked)
    if "pay" in asked and who:
        return [sum(map(int, re.findall(rf"{who[1]} paid (\d+)", text)))]
    if "bell" in asked and who:
        return [text.count(f"{who[1]} rang the bell")]
    colour = re.search(r"the (\w+) door", asked)
    return re.findall(rf"code of the {colour[1] if colour else ''} door is (\d+)", text)


def test_fifteen_long_problems_are_about_16k_tokens_each_and_have_one_answer():
    asked = questions.long()
    assert len(asked) == 15
    for question in asked:
        assert 10_000 < len(question.text.split()) < 13_000
        assert [str(number) for number in numbers_about(question)] == [question.expected]
    assert len({question.text for question in asked}) == 15


def test_the_questions_are_the_same_every_time():
    assert questions.long(1000) == questions.long(1000)
    assert questions.short() == questions.short()


@pytest.mark.parametrize(("context", "long"), [(2048, 0), (16_384, 0), (65_536, 15)])
def test_only_questions_that_fit_the_context_are_asked(context, long):
    assert len(questions.of(context)) == len(questions.short()) + long


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("42", True),
        ("The answer is 42.", True),
        ("12 + 30 = 42", True),
        ("142", False),
        ("42.5", False),
        ("4", False),
        ("", False),
    ],
)
def test_an_answer_is_right_when_the_number_is_in_it_as_a_whole(answer, right):
    assert questions.is_right(Question("12 + 30?", "42"), answer) is right


def test_a_number_with_a_comma_is_the_same_number():
    assert questions.is_right(Question("?", "7351"), "It is 7,351.")


@pytest.mark.parametrize(
    ("now", "before", "worse"),
    [
        (1.0, 1.0, False),
        (0.9, 1.0, False),
        (0.875, 1.0, False),
        (0.75, 1.0, True),
        (0.0, 0.4, True),
        (0.1, None, False),
    ],
)
def test_scores_are_compared_with_those_before(now, before, worse):
    assert bool(quality.worse(now, before)) is worse
