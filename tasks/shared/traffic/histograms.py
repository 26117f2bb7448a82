"""Percentiles of a Prometheus histogram whose buckets were counted exactly."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Quantile:
    """A percentile; `beyond`: it is above this value, the highest bound that the histogram has."""

    value: float
    beyond: bool = False


@dataclass(frozen=True)
class Histogram:
    """How many observations there were, their sum, and how many up to each upper bound."""

    count: float
    sum: float
    buckets: tuple[tuple[float, float], ...] = ()
    """(upper bound, observations up to it), ascending; the last bound is infinite."""

    @property
    def mean(self) -> float | None:
        return self.sum / self.count if self.count else None

    def quantile(self, share: float) -> Quantile | None:
        """The value that this share of the observations does not exceed; None without any.

        Within a bucket they are taken to lie evenly, as PromQL's histogram_quantile does.
        """
        if not self.buckets or not self.buckets[-1][1]:
            return None
        rank = share * self.buckets[-1][1]
        lower, below = 0.0, 0.0
        for bound, upto in self.buckets:
            if upto >= rank and upto > below:
                if math.isinf(bound):
                    return Quantile(lower, beyond=True)
                return Quantile(lower + (bound - lower) * (rank - below) / (upto - below))
            lower, below = bound, upto
        return None  # not cumulative: no histogram

    def shares(self) -> list[tuple[float, float]]:
        """(upper bound, share of the observations up to it) for each finite bound."""
        total = self.buckets[-1][1] if self.buckets else 0.0
        if not total:
            return []
        return [(bound, upto / total) for bound, upto in self.buckets if not math.isinf(bound)]
