"""Who gets how many of a step's prefill tokens: decisions without vLLM."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

OLDEST_SHARE = 4
"""The oldest prompt is owed one token in so many, whatever shorter ones arrive."""


class Prompt(NamedTuple):
    """A request that has tokens to prefill.

    `answering` is one whose answer had begun before it was preempted: somebody is reading it.
    """

    key: str
    arrival: float
    remaining: int
    answering: bool = False


def oldest(prompts: Iterable[Prompt]) -> Prompt | None:
    """The prompt that came first."""
    return min(prompts, key=lambda prompt: (prompt.arrival, prompt.key), default=None)


def in_turn(prompts: Iterable[Prompt], due: Prompt | None = None) -> list[Prompt]:
    """The prompts in the order in which they are served: begun answers, `due`, then the shortest.

    Prompts of the same length come by age.
    """
    return sorted(
        prompts,
        key=lambda p: (not p.answering, p is not due, p.remaining, p.arrival, p.key),
    )


def deal(
    prompts: Iterable[Prompt], room: int, takes: Callable[[Prompt, int], int]
) -> dict[str, int]:
    """How many tokens each prompt may have at most, served in this order out of `room`.

    `takes(prompt, offered)` is what it makes of an offer: less where its chunks must end at a
    block's boundary. What one does not take is offered to the next.
    """
    offers = {}
    for prompt in prompts:
        offers[prompt.key] = room
        room -= takes(prompt, min(room, prompt.remaining))
    return offers


class Debt:
    """What the oldest prompt is owed, so that it never starves.

    Of every step it is owed a share, less what it got. Once a whole step is owed, it goes first
    until that is paid: a prompt is at most OLDEST_SHARE times slower than first come, first served.
    """

    def __init__(self, step_tokens: int) -> None:
        self._step_tokens = step_tokens
        self._tokens = 0

    @property
    def is_due(self) -> bool:
        """Is a whole step owed?"""
        return self._tokens >= self._step_tokens

    def settle(self, received: int) -> None:
        """Count a step in which the oldest prompt received so many tokens."""
        owed = self._tokens + max(self._step_tokens // OLDEST_SHARE, 1) - received
        self._tokens = min(max(owed, 0), self._step_tokens)


class Vain:
    """When to leave room for the waiting requests again, after none of them took any.

    vLLM may be unable to admit the first of them, and with it all others: an adapter or a KV
    connector is not ready for it. Left without end, the room would be lost to those that run.
    """

    _LONGEST_PAUSE = 8

    def __init__(self) -> None:
        self._first = ""
        self._tries = 0
        self._pause_until = 0

    def is_worth_it(self, first: str, step: int) -> bool:
        """Should room be left in this step, with this request as the first that waits?"""
        return first != self._first or step > self._pause_until

    def settle(self, first: str, step: int, *, taken: bool) -> None:
        """Count a step in which room was left: did any of them take some?"""
        if taken:
            self.reset()
            return
        self._tries = self._tries + 1 if first == self._first else 1
        self._first = first
        self._pause_until = step + min(2 ** (self._tries - 1), self._LONGEST_PAUSE)

    def reset(self) -> None:
        """Something has changed: try again at once."""
        self._first, self._tries = "", 0
