"""What a load test asks of a server: pure functions."""

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tasks.shared.load_tests.choices import LoadTestSettings
from tasks.shared.load_tests.hosts import Outlook

SHORT_TOKENS = 512
LONG_TOKENS = 16_000
MIXED_TOKENS = (64, LONG_TOKENS)
LEAST_REQUESTS = 4
ROOM = 32
"""Tokens that stay free beside a prompt and its answer."""
POOL_SHARE = 0.9
"""Of the KV pool: what all requests at once may fill, so that none is put off."""
OVERHEAD_S = 20
"""What a run takes besides its requests: importing vLLM's client, reading its tokenizer."""


@dataclass(frozen=True)
class Run:
    """One run of vLLM's own benchmark; `tokens` is the length of each prompt."""

    name: str
    prompts: str
    tokens: tuple[int, ...]
    answer: int
    concurrency: int


@dataclass(frozen=True)
class Plan:
    """The runs in order, and what was cut from what the settings ask for, in words."""

    runs: tuple[Run, ...]
    cut: tuple[str, ...]

    def order(self, identity: str, by: str, settings: LoadTestSettings, wait_s: int) -> Any:
        """What hostkit carries out, as JSON data."""
        return {
            "id": identity,
            "by": by,
            "wait_s": wait_s,
            "budget_s": settings.load_test_minutes * 60,
            "runs": [asdict(run) for run in self.runs],
        }


def plan(settings: LoadTestSettings, host: Outlook) -> Plan:
    """Every number of requests at once with every kind and length of prompts that the host takes.

    Prompts are cut to the model's length and to the KV pool; more requests at once than the server
    works on would only wait.
    """
    runs: list[Run] = []
    cut: list[str] = []
    for at_once in sorted(settings.load_test_concurrency):
        if at_once > host.max_num_seqs:
            cut.append(f"{at_once} in parallel: the server works on {host.max_num_seqs} at a time")
            continue
        longest = _longest(settings.load_test_answer, at_once, host)
        if longest < min(SHORT_TOKENS, MIXED_TOKENS[0]):
            cut.append(f"{at_once} in parallel: there is room for prompts of {longest} tokens only")
            continue
        if longest < LONG_TOKENS and {"long", "mixed"} & {*settings.load_test_lengths}:
            cut.append(
                f"{at_once} in parallel: prompts of at most {longest:,} instead of {LONG_TOKENS:,} "
                f"tokens (model {host.max_model_len:,}, KV pool {host.kv_tokens:,})"
            )
        count = max(LEAST_REQUESTS, settings.load_test_rounds * at_once)
        for kind in settings.load_test_prompts:
            for length in settings.load_test_lengths:
                runs.append(
                    Run(
                        f"{kind}, {length}, {at_once} in parallel",
                        kind,
                        tuple(min(n, longest) for n in _lengths(length, count, longest)),
                        settings.load_test_answer,
                        at_once,
                    )
                )
    return Plan(tuple(runs), tuple(cut))


def _longest(answer: int, at_once: int, host: Outlook) -> int:
    """Tokens of the longest prompt that fits."""
    longest = host.max_model_len - answer - ROOM
    if host.kv_tokens:
        longest = min(longest, int(POOL_SHARE * host.kv_tokens / at_once) - answer)
    return longest


def _lengths(length: str, count: int, longest: int) -> list[int]:
    """Tokens of each prompt; the same in every test, in an order that mixes short and long."""
    if length == "short":
        return [SHORT_TOKENS] * count
    if length == "long":
        return [LONG_TOKENS] * count
    low, high = MIXED_TOKENS[0], max(MIXED_TOKENS[0], min(MIXED_TOKENS[1], longest))
    spread = [round(low * (high / low) ** (index / (count - 1))) for index in range(count)]
    random.Random(count).shuffle(spread)
    return spread


def estimate_s(runs: Sequence[Run], last: Sequence[dict[str, Any]]) -> float | None:
    """How long these runs will take, by an earlier test's rows; None when it lacks one of them."""
    took: dict[str, float] = {row["name"]: row["took_s"] for row in last}
    if any(run.name not in took for run in runs):
        return None
    return sum(took[run.name] for run in runs)


def describe(made: Plan, estimate: float | None, minutes: int) -> list[str]:
    """The plan for the operator."""
    requests = sum(len(run.tokens) for run in made.runs)
    tokens = sum(sum(run.tokens) + len(run.tokens) * run.answer for run in made.runs)
    known = (
        f"about {estimate / 60:.0f} min, as last time" if estimate else "no earlier test to go by"
    )
    return [
        f"{len(made.runs)} runs, {requests} requests, {tokens:,} tokens; {known}; at most "
        f"{minutes} min (load_test_minutes)",
        *(f"left out or cut: {line}" for line in made.cut),
    ]
