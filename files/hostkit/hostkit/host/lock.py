"""One change of the server at a time: who makes it, since when, and what a dead one left.

The lock ends with its process. What is written in it ends only with a run that put everything in
order, so text in a lock that nobody holds tells of a run that was killed half-way.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any, TextIO

from hostkit.host import paths
from hostkit.host.process import Failure

FILE = paths.RUN / "switch.lock"


@dataclass(frozen=True)
class Holder:
    """A run that changes the server. `doing` reads after "is", e.g. "restarting generation 3"."""

    by: str
    doing: str
    since: str
    pid: int

    def __str__(self) -> str:
        return f"{self.by} is {self.doing} since {self.since} (process {self.pid})"


@contextlib.contextmanager
def held(doing: str, by: str = "") -> Iterator[Holder | None]:
    """Hold the lock; yields the run that died with it, if one did.

    Failure names the holder when it is another one's.
    """
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read(file)
            raise Failure(
                f"{holder or 'another run is changing the server'}: wait until that has ended"
            ) from None
        left = _read(file)
        now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        _write(file, asdict(Holder(by or "somebody on the host", doing, now, os.getpid())))
        try:
            yield left
        except Failure:
            _write(file, None)
            raise
        # Anything else that is raised got in the way of tidying up: the text stays.
        _write(file, None)


def holder() -> Holder | None:
    """Who holds the lock now; None when nobody does. Changes nothing."""
    held_by, found = _look()
    return found if held_by else None


def left() -> Holder | None:
    """The run that died holding the lock; None when it ended well or still goes on."""
    held_by, found = _look()
    return None if held_by else found


def _look() -> tuple[bool, Holder | None]:
    try:
        with FILE.open(encoding="utf-8") as file:
            found = _read(file)
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True, found
            return False, found
    except OSError:
        return False, None


def _read(file: TextIO) -> Holder | None:
    file.seek(0)
    try:
        found: Any = json.loads(file.read())
        return Holder(**found)
    except (ValueError, TypeError):
        return None


def _write(file: TextIO, content: dict[str, Any] | None) -> None:
    file.seek(0)
    file.truncate()
    if content is not None:
        file.write(json.dumps(content))
    file.flush()
