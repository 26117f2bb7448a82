"""How much of the SSD tier has to go, and what of it: pure functions."""

from collections import Counter
from dataclasses import dataclass

# Below the limits by so much, so that not every run has something to remove: 150 GB become 140.
_DOWN_TO = 0.935
_UP_TO = 1.1


@dataclass(frozen=True)
class Cut:
    """Blocks last used before this minute go, and so many bytes of those used in it."""

    minute: int = 0
    bytes_of_it: int = 0


def excess(used: int, free: int, *, quota: int, min_free: int) -> int:
    """Bytes that have to go: for the quota, or for the room that the disk must have left.

    Each limit is undershot once it is passed; 0 while neither is.
    """
    over = used - int(quota * _DOWN_TO) if used > quota else 0
    short = int(min_free * _UP_TO) - free if free < min_free else 0
    return max(over, short, 0)


def cuts(need: int, unused: Counter[int], used: Counter[int]) -> tuple[Cut, Cut]:
    """Where to cut: among fingerprints that no generation uses, and among those in use.

    Both map a minute to the bytes last used in it. Those in use are touched only when the others
    do not suffice.
    """
    of_unused = min(need, unused.total())
    return _cut(of_unused, unused), _cut(need - of_unused, used)


def _cut(need: int, minutes: Counter[int]) -> Cut:
    if need <= 0:
        return Cut()
    for minute in sorted(minutes):
        if minutes[minute] >= need:
            return Cut(minute, need)
        need -= minutes[minute]
    return Cut(max(minutes, default=0) + 1)
