"""A server's lives as Prometheus saw them, and where to read a counter to count exactly.

A counter begins at 0 with its process. PromQL's `increase` guesses what lay between the samples at
the edges of a range, so that 3 requests become 3.02. Here nothing is guessed: a counter's value at
the last sample of a life, less that at the last sample before the interval, is what was counted.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

# Samples that are farther apart mean that nobody looked in between.
GAP_S = 60.0


@dataclass(frozen=True)
class Life:
    """One process of the server: when it began, and when it was seen (Unix times)."""

    began: float
    seen: tuple[float, ...]


@dataclass(frozen=True)
class Count:
    """Counters count what they have at `end`, less what they had at `base`; None is 0."""

    base: float | None
    end: float


def lives(samples: Sequence[tuple[float, float]]) -> list[Life]:
    """Split the samples of process_start_time_seconds: each value of it is a life."""
    found: dict[float, list[float]] = {}
    for time, began in samples:
        found.setdefault(began, []).append(time)
    return [Life(began, tuple(seen)) for began, seen in sorted(found.items())]


def counts(
    all_lives: Sequence[Life], looked: Sequence[float], start: float, end: float
) -> list[Count]:
    """Where to read the counters for what happened after `start` and until `end`.

    `looked` has the times of all looks, also of those that found no server.
    """
    was_watched = any(time <= start for time in looked)
    found = []
    for life in all_lives:
        inside = [time for time in life.seen if start < time <= end]
        before = [time for time in life.seen if time <= start]
        if not inside:
            continue
        if before:
            found.append(Count(before[-1], inside[-1]))
        elif life.began >= start or was_watched:
            # It had not served yet when it was last looked for.
            found.append(Count(None, inside[-1]))
        else:
            # It served before anybody looked: what it did until then is not this interval's.
            found.append(Count(inside[0], inside[-1]))
    return found


def starts(all_lives: Sequence[Life], start: float, end: float) -> int:
    """How many lives began after `start` and until `end`."""
    return sum(start < life.began <= end for life in all_lives)


def watched_s(times: Sequence[float], start: float, end: float) -> float:
    """Seconds of an interval in which samples follow each other without a gap."""
    points = sorted(time for time in times if start - GAP_S <= time <= end)
    pairs = itertools.pairwise(points)
    return sum(later - max(one, start) for one, later in pairs if start < later <= one + GAP_S)
