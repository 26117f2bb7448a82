"""Brings a switch to an end that was interrupted: the last verified generation serves.

Three call it: the unit of a switch when its process has died, `vllm-settle.service` at boot before
the server starts, and the next switch. Each may find any step done or not.
"""

import contextlib
from typing import Any

from hostkit.generation import generations
from hostkit.host import lock, paths, units
from hostkit.host.jobs import progress
from hostkit.host.process import Failure
from hostkit.lifecycle import watch


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("settle", help="end an interrupted switch")
    parser.add_argument("--boot", action="store_true", help="the server is not started yet")
    parser.set_defaults(run=lambda args: at_boot() if args.boot else after_a_death())


def at_boot() -> int:
    """Make the last verified generation the one that this boot starts."""
    with lock.held("settling before the server starts", "the boot"):
        _back_to_verified()
    return 0


def after_a_death() -> int:
    """End what a dead run began; nothing when there is none, or when it still goes on."""
    if lock.left() is None:
        return 0
    with contextlib.suppress(Failure), lock.held("ending an interrupted switch", "hostkit") as left:
        if left is not None:
            tidy(left)
    return 0


def tidy(left: lock.Holder) -> bool:
    """Under the lock: undo the half-done switch of a dead run, and have a server started.

    True when it was not running and so has nobody who uses it.
    """
    progress(f"the run of {left.by} died while it was {left.doing}: tidying up")
    _back_to_verified()
    watch.allow_restarts()
    if generations.linked(paths.CURRENT) is None:
        return True
    if units.show("ActiveState")["ActiveState"] == "deactivating":
        units.systemctl("stop", paths.UNIT)
    if units.show("ActiveState")["ActiveState"] not in ("inactive", "failed"):
        return False
    with contextlib.suppress(Failure):
        units.systemctl("reset-failed", paths.UNIT)
    units.systemctl("start", "--no-block", paths.UNIT)
    progress(f"generation {generations.linked(paths.CURRENT)} is started again")
    return True


def _back_to_verified() -> None:
    """Leave a generation that never proved itself for the one before, where that is whole."""
    current, back = generations.linked(paths.CURRENT), generations.linked(paths.PREVIOUS)
    if back is None or back == current or not generations.is_verified(back):
        return
    if current is not None and generations.is_verified(current):
        return
    if not generations.is_whole(back):
        progress(f"generation {back} is damaged, so generation {current} stays")
        return
    progress(f"generation {current} was never verified: back to generation {back}")
    if units.show("ActiveState")["ActiveState"] not in ("inactive", "failed"):
        units.systemctl("stop", paths.UNIT)
    generations.restore(back)
    text = generations.unit(back)
    if text is not None:
        units.install(text)
