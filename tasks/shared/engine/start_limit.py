"""The arithmetic of systemd's start limit: pure functions.

A limit is reached only when all its starts fit into its window, however long each takes to fail.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.shared.settings import Settings


def interval_s(settings: "Settings") -> int:
    """The window in seconds: the operator's own, or the smallest in which the limit is reached."""
    return settings.start_limit_interval_s or _reachable_s(settings)


def check(settings: "Settings") -> None:
    """Raises ValueError for a window in which the limit would never be reached."""
    interval, needed = settings.start_limit_interval_s, _reachable_s(settings)
    if interval is not None and interval < needed:
        raise ValueError(
            f"start_limit_interval_s ({interval}) must be at least {needed}: "
            f"{settings.start_limit_burst} starts, each {_one_start_s(settings)} s with the wait "
            "before it, would never fall into it, and a failing server be started for ever"
        )


def _one_start_s(settings: "Settings") -> int:
    """How long a start takes at most to fail, with the wait before it.

    With no failing start on record it may take all the time that it is given.
    """
    failing = settings.slowest_failing_start_s or settings.ready_timeout_s
    return settings.restart_delay_s + settings.gate_wait_s + failing


def _reachable_s(settings: "Settings") -> int:
    # 10 % slack, rounded up.
    return settings.start_limit_burst * _one_start_s(settings) * 11 // 10 + 1
