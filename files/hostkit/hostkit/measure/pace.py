"""How fast a server is: tokens a second over a few fixed completions.

Only good beside another figure of the same hour on the same host. Rounds in which somebody else
used the server do not count, and of the others the fastest does: all that disturbs only slows.
"""

import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from hostkit.host.jobs import progress
from hostkit.host.process import Failure
from hostkit.measure import questions
from hostkit.serving import server

ROUNDS = 5
AT_ONCE = 4
PROMPT_WORDS = 400
TOKENS = 128


@dataclass(frozen=True)
class Pace:
    """Tokens a second of the rounds that counted."""

    rounds: tuple[float, ...]

    @property
    def best(self) -> float:
        return max(self.rounds)

    def __str__(self) -> str:
        spread = 100 * (1 - statistics.median(self.rounds) / self.best)
        return (
            f"{self.best:.1f} tokens/s, the fastest of {len(self.rounds)} rounds; "
            f"the median is {spread:.1f} % slower"
        )


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("pace", help="measure the server's tokens a second")
    parser.set_defaults(run=lambda _args: _run())


def _run() -> int:
    found = measure(server.find())
    if found is None:
        raise Failure("not measured: others use the server")
    print(found)
    return 0


def measure(found: server.Server) -> Pace | None:
    """Measure a server, after one round that does not count; None when others used it all along."""
    progress(f"measuring its speed: {ROUNDS} rounds of {AT_ONCE} completions of {TOKENS} tokens")
    _round(found)
    rounds = [each for each in (_round(found) for _ in range(ROUNDS)) if each is not None]
    return Pace(tuple(rounds)) if rounds else None


def _round(found: server.Server) -> float | None:
    """Tokens a second of one round; None when the server answered others besides."""
    before = _finished(found)
    # The same texts for every server; the salt keeps what one has cached from serving another.
    options: dict[str, Any] = {"cache_salt": os.urandom(16).hex()}
    prompts = [questions.filler(PROMPT_WORDS, number) for number in range(AT_ONCE)]
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda each: server.complete(found, each, TOKENS, **options), prompts))
    took = time.monotonic() - began
    alone = _finished(found) - before == AT_ONCE and server.requests_in_flight(found) == 0
    return AT_ONCE * TOKENS / took if alone else None


def _finished(found: server.Server) -> float:
    return server.total(server.metrics(found), "vllm:request_success_total") or 0.0


def compare(now: Pace | None, before: Pace | None, gate_percent: float) -> tuple[str, bool]:
    """What there is to say of a new server's speed, and whether it is too slow."""
    if now is None or before is None:
        return "speed was not compared: there was no moment without other requests", False
    lost = 100 * (before.best - now.best) / before.best
    figures = f"{now.best:.1f} tokens/s, {before.best:.1f} before"
    if lost > gate_percent:
        return f"{lost:.1f} % slower ({figures}); bench_gate allows {gate_percent:g} %", True
    return f"speed {figures}, {100 - lost:.1f} %", False
