"""Questions with answers that can be checked, made here from a fixed seed: pure functions.

Each kind is one that breaks first when KV is wrong: a sum over figures scattered through a text, a
single figure in it, a count, and arithmetic without any text. The texts are of our own words.
"""

import random
import re
from dataclasses import dataclass

SEED = 16
LONG_TEXTS = 15
LONG_TOKENS = 16_000
SHORT_WORDS = 120
TOKENS_PER_WORD = 1.4
"""What our plain words take at most, with the tokenizers tried: SmolLM2's takes 1.2."""

_PEOPLE = ("Ada", "Boris", "Clara", "Dora", "Emil", "Frida", "Gustav", "Hanna")
_COLOURS = ("red", "green", "blue", "yellow", "white", "black", "brown", "grey")
_SUBJECTS = ("The gardener", "A neighbour", "The old teacher", "The baker", "A visitor", "My aunt")
_VERBS = ("watched", "painted", "carried", "repaired", "described", "forgot", "measured", "sold")
_OBJECTS = ("the long fence", "a small boat", "the kitchen clock", "an empty box", "the stone wall")
_TIMES = ("in the morning", "after lunch", "before the rain", "on a quiet evening", "last winter")


@dataclass(frozen=True)
class Question:
    """`expected` must be among the numbers, or be a word, of the answer."""

    text: str
    expected: str


def short() -> list[Question]:
    """Questions for any model: arithmetic, common knowledge, one fact in a short text."""
    chance = random.Random(SEED)
    asked = [
        Question("What is the capital of France?", "Paris"),
        Question("What is the capital of Italy?", "Rome"),
        Question("What is 2 + 3? Answer with the number only.", "5"),
        Question("What is 12 + 30? Answer with the number only.", "42"),
    ]
    return [*asked, *(_needle(chance, SHORT_WORDS) for _ in range(4))]


def long(tokens: int = LONG_TOKENS, count: int = LONG_TEXTS) -> list[Question]:
    """Problems in texts of about so many tokens: a third each of sums, counts and single facts."""
    chance = random.Random(SEED + 1)
    words = int(tokens / TOKENS_PER_WORD)
    kinds = (_sum, _count, _needle)
    return [kinds[index % len(kinds)](chance, words) for index in range(count)]


def of(max_model_len: int) -> list[Question]:
    """The questions that fit a model's context."""
    room = max_model_len - 4096
    return short() + (long() if room >= LONG_TOKENS * 1.1 else [])


def is_right(question: Question, answer: str) -> bool:
    """Does the answer say what was expected: a number as a whole one, a word anywhere."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", answer)
    return re.search(rf"(?<![\w.]){re.escape(question.expected)}(?!\w|\.\d)", plain) is not None


def filler(words: int, number: int) -> str:
    """A text that no question uses; each number gives another one."""
    return f"Text {number}. " + _story(random.Random(f"filler {number}"), words)


def _story(chance: random.Random, words: int) -> str:
    sentences: list[str] = []
    length = 0
    while length < words:
        parts = (_SUBJECTS, _VERBS, _OBJECTS, _TIMES)
        sentence = " ".join(chance.choice(part) for part in parts) + "."
        sentences.append(sentence)
        length += len(sentence.split())
    return " ".join(sentences)


def _hidden(chance: random.Random, words: int, facts: list[str]) -> str:
    sentences = _story(chance, words).split(". ")
    for fact in facts:
        sentences.insert(chance.randrange(len(sentences)), fact)
    return ". ".join(sentences)


def _needle(chance: random.Random, words: int) -> Question:
    colour, code = chance.choice(_COLOURS), chance.randrange(1000, 10000)
    text = _hidden(chance, words, [f"The code of the {colour} door is {code}"])
    asked = f"What is the code of the {colour} door? Answer with the number only."
    return Question(f"{text}\n\n{asked}", str(code))


def _sum(chance: random.Random, words: int) -> Question:
    who, others = _split(chance)
    amounts = [chance.randrange(11, 90) for _ in range(4)]
    facts = [f"{who} paid {amount} euros" for amount in amounts]
    facts += [f"{other} paid {chance.randrange(11, 90)} euros" for other in others]
    text = _hidden(chance, words, facts)
    asked = f"How many euros did {who} pay in all? Answer with the number only."
    return Question(f"{text}\n\n{asked}", str(sum(amounts)))


def _count(chance: random.Random, words: int) -> Question:
    who, others = _split(chance)
    times = chance.randrange(3, 8)
    facts = [f"{who} rang the bell"] * times + [f"{other} rang the bell" for other in others]
    text = _hidden(chance, words, facts)
    asked = f"How often did {who} ring the bell? Answer with the number only."
    return Question(f"{text}\n\n{asked}", str(times))


def _split(chance: random.Random) -> tuple[str, list[str]]:
    people = list(_PEOPLE)
    chance.shuffle(people)
    return people[0], people[1:4]
