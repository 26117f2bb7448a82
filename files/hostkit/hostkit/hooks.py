"""What the unit runs as root before a start and after a stop, outside of its sandbox."""

from typing import Any

from hostkit import starts, sweep


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("before-start", help="count the start, sweep (unit)")
    parser.set_defaults(run=lambda _args: before_start())
    parser = subparsers.add_parser("after-stop", help="sweep (unit)")
    parser.set_defaults(run=lambda _args: after_stop())


def before_start() -> int:
    starts.record()
    _sweep()
    return 0


def after_stop() -> int:
    _sweep()
    return 0


def _sweep() -> None:
    for line in sweep.sweep():
        print(f"hostkit: removed /dev/shm/{line}", flush=True)
