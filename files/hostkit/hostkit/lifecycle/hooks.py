"""What the unit runs as root before a start and after a stop, outside of its sandbox."""

import os
import time
from collections.abc import Mapping
from typing import Any

from hostkit.generation import starts
from hostkit.health import failures
from hostkit.host import sweep, units
from hostkit.kv import prune

_BY_REQUEST = ("stop", "restart", "try-restart")


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("before-start", help="count the start, sweep, prune (unit)")
    parser.set_defaults(run=lambda _args: before_start())
    parser = subparsers.add_parser("after-stop", help="keep a failure, sweep (unit)")
    parser.set_defaults(run=lambda _args: after_stop(os.environ))


def before_start() -> int:
    starts.record()
    _sweep()
    prune.before_start()
    return 0


def after_stop(environ: Mapping[str, str]) -> int:
    """Called with systemd's $SERVICE_RESULT, $EXIT_STATUS and $INVOCATION_ID.

    vLLM exits with status 0 when its engine dies: an exit that nobody asked for is a failure.
    """
    if not _was_asked_for():
        units.sync_journal()
        began = int(units.show("ExecMainStartTimestampMonotonic").popitem()[1] or 0) / 1e6
        report = failures.record(
            environ["INVOCATION_ID"],
            result=environ.get("SERVICE_RESULT", ""),
            status=environ.get("EXIT_STATUS", ""),
            lasted_s=time.monotonic() - began if began else 0.0,
        )
        last = [report, *report["later"]][-1]
        print(
            f"hostkit: ended without being asked to: {last['what']} ({last['class']}): "
            f"{last['cause']}; to do: {last['remedy']}",
            flush=True,
        )
    _sweep()
    return 0


def _was_asked_for() -> bool:
    """Does a job stop the unit? Nothing else tells a stop from an end by itself."""
    jobs = units.jobs()
    return any(kind in _BY_REQUEST for kind in jobs)


def _sweep() -> None:
    for line in sweep.sweep():
        print(f"hostkit: removed /dev/shm/{line}", flush=True)
