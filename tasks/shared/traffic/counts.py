"""Counters of several intervals as one: by name and labels."""

import math
from collections.abc import Iterable

from tasks.shared.facts.traffic import Counted
from tasks.shared.traffic.histograms import Histogram


class Counts:
    """What was counted. A metric that the server does not have is None, not 0."""

    def __init__(self, counted: Iterable[Counted]) -> None:
        self._by_name: dict[str, list[Counted]] = {}
        for each in counted:
            self._by_name.setdefault(each.name, []).append(each)

    def total(self, name: str, **labels: str) -> float | None:
        """The sum over all series of that name with these labels."""
        found = self._with(name, labels)
        return math.fsum(each.value for each in found) if found else None

    def by(self, name: str, label: str) -> dict[str, float]:
        """The sum for each value of a label."""
        found: dict[str, float] = {}
        for each in self._by_name.get(name, []):
            key = each.labels.get(label, "")
            found[key] = found.get(key, 0.0) + each.value
        return found

    def histogram(self, name: str, **labels: str) -> Histogram | None:
        """The histogram of that name, those of all series with these labels added up."""
        buckets: dict[float, float] = {}
        for each in self._with(f"{name}_bucket", labels):
            bound = float(each.labels["le"])
            buckets[bound] = buckets.get(bound, 0.0) + each.value
        count, total = (self.total(f"{name}_{part}", **labels) for part in ("count", "sum"))
        if count is None or total is None:
            return None
        return Histogram(count, total, tuple(sorted(buckets.items())))

    def _with(self, name: str, labels: dict[str, str]) -> list[Counted]:
        return [
            each
            for each in self._by_name.get(name, [])
            if all(each.labels.get(key) == value for key, value in labels.items())
        ]
