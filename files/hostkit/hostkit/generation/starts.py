"""Counts the starts that systemd makes by itself, beside systemd's own start limit.

systemd 252 forgets its count at every daemon-reload, and its window begins with the first start:
a long healthy run is followed by twice the burst. This count has a sliding window and outlives a
reload. A start that somebody asked for, and a boot, begin it anew.
"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from hostkit.host import paths, units
from hostkit.host.process import Failure, write_atomic

FILE = paths.RUN / "starts.json"
SLOWEST = paths.HEALTH / "slowest_failing_start.json"


def record() -> None:
    """Note the start that is under way. As root, before the service's own process."""
    # systemd keeps this number through a reload, and sets it to 0 at a start that was asked for.
    automatic = int(units.show("NRestarts")["NRestarts"] or 0)
    before = times() if automatic else []
    write_atomic(FILE, json.dumps([*before[-99:], time.monotonic()]) + "\n")


def times() -> list[float]:
    """When the service was started, in seconds of this boot's monotonic clock."""
    try:
        return [float(each) for each in json.loads(FILE.read_text())]
    except (OSError, ValueError, TypeError):
        return []


def record_failed(seconds: float) -> None:
    """Note how long a start took that failed before it served; the slowest is kept."""
    if seconds > slowest_s():
        write_atomic(SLOWEST, json.dumps(round(seconds, 1)) + "\n")


def slowest_s() -> float:
    """The longest that a start on this host has taken to fail; 0 when none has failed yet."""
    try:
        seconds = float(json.loads(SLOWEST.read_text()))
    except (OSError, ValueError, TypeError):
        return 0.0
    return seconds if 0 <= seconds < math.inf else 0.0


def check(limit: Mapping[str, Any] | None) -> None:
    """Failure when the start that is under way is one too many.

    `limit` is a generation's own: `burst` starts within `interval_s`, each after `delay_s`.
    """
    if not limit:
        return
    window = window_s(limit, slowest_s())
    count = within(times(), window, time.monotonic())
    if count > limit["burst"]:
        raise Failure(
            f"this is start {count} within {window:.0f} s, {limit['burst']} are allowed: see "
            f"`hostkit failures`, then `systemctl reset-failed {paths.UNIT}` and start it"
        )


def check_reachable(limit: Mapping[str, Any] | None) -> None:
    """Failure when starts as slow to fail as one that was recorded would never reach the limit."""
    if not limit:
        return
    slowest = slowest_s()
    needed = limit["burst"] * (limit["delay_s"] + slowest)
    if needed >= limit["interval_s"]:
        raise Failure(
            f"a start on this host took {slowest:.0f} s to fail: {limit['burst']} such starts do "
            f"not fit into the {limit['interval_s']} s of the start limit, which would never be "
            f"reached; set slowest_failing_start_s = {math.ceil(slowest)}"
        )


def within(started: Sequence[float], window: float, now: float) -> int:
    """How many starts lie in the window that ends now."""
    return sum(1 for each in started if now - window < each <= now)


def window_s(limit: Mapping[str, Any], slowest: float) -> float:
    """The window in which the limit can be reached, however slowly the starts fail."""
    reachable = limit["burst"] * (limit["delay_s"] + slowest) * 11 / 10
    return float(max(limit["interval_s"], math.ceil(reachable)))
