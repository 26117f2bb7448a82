"""Did a server get slower, or larger, in the course of a soak test? Pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Sample = Mapping[str, Any]

GROWTH_PERCENT = 5
GROWTH_MIB = 256
"""A server that holds so much more at the end, by both, has not stopped growing."""


@dataclass(frozen=True)
class Drift:
    """A figure's median in the first and in the last third of a soak test."""

    key: str
    title: str
    first: float
    last: float

    @property
    def percent(self) -> float:
        return 100 * (self.last / self.first - 1) if self.first else 0.0

    def __str__(self) -> str:
        return (
            f"{self.title}: {self.first:,.1f} in the first third, {self.last:,.1f} in the last "
            f"({self.percent:+.1f} %)"
        )


_TITLES = {
    "answer_tokens_per_s": "tokens/s",
    "first_token_p50_ms": "first token (ms)",
    "server_mib": "memory of the server (MiB)",
    "gpu_mib": "memory of the GPUs in use (MiB)",
    "available_mib": "memory of the host left (MiB)",
}


def drifts(samples: Sequence[Sample]) -> list[Drift]:
    """How each figure that was measured changed; the very first round, which warms up, apart."""
    counted = samples[1:] if len(samples) > 3 else samples
    third = max(1, len(counted) // 3)
    found = []
    for key, title in _TITLES.items():
        first = [sample[key] for sample in counted[:third] if key in sample]
        last = [sample[key] for sample in counted[-third:] if key in sample]
        if first and last:
            found.append(Drift(key, title, median(first), median(last)))
    return found


def problems(samples: Sequence[Sample], tolerance: int) -> list[str]:
    """What got worse by more than the tolerance, in percent, or went on growing; a line each."""
    return [f"soak: {each}" for each in drifts(samples) if _is_worse(each, tolerance)]


def _is_worse(each: Drift, tolerance: int) -> bool:
    if each.key == "answer_tokens_per_s":
        return each.percent < 0 and 100 * (each.first / (each.last or 1e-9) - 1) > tolerance
    if each.key == "first_token_p50_ms":
        return each.percent > tolerance and each.last - each.first > 20
    if each.key in ("server_mib", "gpu_mib"):
        return each.percent > GROWTH_PERCENT and each.last - each.first > GROWTH_MIB
    return False
