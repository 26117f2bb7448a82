"""The same load for every order of prefills, measured as a client sees it, compared as ratios.

Used against the rehearsal's server (tests/rehearsal/measure/prefill.py) and on a GPU
(tests/gpu/test_scheduler.py).
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from hostkit.measure import streaming


class Reply(Protocol):
    """Seconds from the request to its first token, and to its last."""

    @property
    def first_s(self) -> float: ...

    @property
    def total_s(self) -> float: ...


Ask = Callable[[Sequence[int], int], Reply]
"""Sends a prompt of token ids, waits for an answer of so many tokens."""


@dataclass(frozen=True)
class Load:
    """What is asked. Prompts are tokens, times seconds; no two prompts share a prefix."""

    long_prompt: int
    late_s: float
    """When the short request comes, after the long one."""

    shorts: tuple[int, ...]
    """Prompts of the short requests, each tried by itself behind a long one."""

    short_answer: int = 8
    trials: int = 2
    mixed: int = 100
    mixed_spread_s: float = 20.0
    mixed_prompts: tuple[int, int] = (20, 2000)
    """The shortest and the longest; their logarithms are spread evenly."""

    mixed_answer: int = 8
    vocabulary: tuple[int, int] = (1000, 30000)


def measure(ask: Ask, load: Load, seed: int = 0) -> dict[str, float]:
    """All figures of one server, in seconds unless their name says otherwise."""
    drawn = random.Random(seed)
    figures: dict[str, float] = {}
    for short in load.shorts:
        trials = [_late_short(ask, load, short, drawn) for _ in range(load.trials)]
        for name in trials[0]:
            figures[f"{short} tokens late: {name}"] = statistics.median(t[name] for t in trials)
    return figures | _mixed(ask, load, drawn)


def _late_short(ask: Ask, load: Load, short: int, drawn: random.Random) -> dict[str, float]:
    with ThreadPoolExecutor(1) as pool:
        long = pool.submit(ask, _prompt(load.long_prompt, load, drawn), 2)
        prompt = _prompt(short, load, drawn)
        time.sleep(load.late_s)
        late = ask(prompt, load.short_answer)
        first = long.result()
    return {
        "its first token": late.first_s,
        "its last token": late.total_s,
        "the long one's first token": first.first_s,
    }


def _mixed(ask: Ask, load: Load, drawn: random.Random) -> dict[str, float]:
    low, high = load.mixed_prompts
    lengths = [round(low * (high / low) ** drawn.random()) for _ in range(load.mixed)]
    starts = sorted(drawn.uniform(0, load.mixed_spread_s) for _ in lengths)
    prompts = [_prompt(length, load, drawn) for length in lengths]
    began = time.monotonic()

    def one(prompt: Sequence[int], start: float) -> Reply:
        time.sleep(max(began + start - time.monotonic(), 0))
        return ask(prompt, load.mixed_answer)

    with ThreadPoolExecutor(load.mixed) as pool:
        replies = list(pool.map(one, prompts, starts))
    total = time.monotonic() - began
    half = statistics.median(lengths)
    shorter = [r.first_s for r, n in zip(replies, lengths, strict=True) if n <= half]
    longer = [r.first_s for r, n in zip(replies, lengths, strict=True) if n > half]
    name = f"{load.mixed} mixed"
    return {
        f"{name}: mean first token": statistics.mean(r.first_s for r in replies),
        f"{name}: the shorter half's": statistics.mean(shorter),
        f"{name}: the longer half's": statistics.mean(longer),
        f"{name}: the last of all": max(r.first_s for r in replies),
        f"{name}: tokens a second": (sum(lengths) + load.mixed * load.mixed_answer) / total,
    }


def _prompt(length: int, load: Load, drawn: random.Random) -> list[int]:
    return [drawn.randrange(*load.vocabulary) for _ in range(length)]


def table(orders: Mapping[str, Mapping[str, float]]) -> str:
    """A row for each figure: under the first order, under the others with their ratio to it."""
    first, *others = orders
    width = max(len(name) for name in orders[first])
    head = f"{'':{width}}  {first:>10}" + "".join(f"  {name:>18}" for name in others)
    rows = [head]
    for name, base in orders[first].items():
        row = f"{name:{width}}  {base:10.2f}"
        for other in others:
            value = orders[other][name]
            row += f"  {value:10.2f} ({value / base:5.2f})"
        rows.append(row)
    return "\n".join(rows)


def http_ask(port: int, key: str, model: str, timeout_s: float = 600) -> Ask:
    """Asks a server on this machine's loopback."""
    return lambda prompt, tokens: streaming.complete(
        f"127.0.0.1:{port}", key, model, prompt, tokens, timeout_s
    )
