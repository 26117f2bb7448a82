"""What the memory guard has ended, and why: kept for the next run to show."""

import json
import time
from pathlib import Path
from typing import Any

from hostkit.host import paths
from hostkit.host.process import Failure, read_json, write_atomic

EVENTS = paths.OPT / "guard"
SHOWN_S = 7 * 24 * 3600


def record(name: str, reason: str) -> None:
    """Keep the reason of what was ended last, of a unit or of a job."""
    before = last(name)
    EVENTS.mkdir(parents=True, exist_ok=True)
    event = {"at": time.time(), "reason": reason, "count": 1 + (before["count"] if before else 0)}
    write_atomic(_file(name), json.dumps(event) + "\n")


def last(name: str) -> dict[str, Any] | None:
    """`at` (seconds since 1970), `reason` and `count` of what was ended; None when nothing was."""
    try:
        event = read_json(_file(name))
        at, count = float(event["at"]), int(event["count"])
        return {"at": at, "reason": str(event["reason"]), "count": count}
    except (Failure, KeyError, TypeError, ValueError):
        return None


def to_show(name: str) -> dict[str, Any] | None:
    """The same, while it is no older than a week."""
    found = last(name)
    return found if found and time.time() - found["at"] < SHOWN_S else None


def kept() -> dict[str, dict[str, Any]]:
    """Every such record by the name of its unit or job."""
    names = sorted(file.stem for file in EVENTS.glob("*.json"))
    return {name: event for name in names if (event := last(name))}


def forget(name: str) -> None:
    """Whoever had to know of it does."""
    _file(name).unlink(missing_ok=True)


def _file(name: str) -> Path:
    return EVENTS / f"{name}.json"
