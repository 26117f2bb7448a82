"""The fault table as Markdown, with what the last runs of the campaign found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from ..host import state
from . import FAULTS
from .elsewhere import ELSEWHERE
from .fault import Fault

FILE = Path(__file__).parents[1] / "FAULTS.md"
_RECORDS = state.HOSTS / "faults.json"

_HEAD = """# Faults and what must hold

Written by `python -m tests.rehearsal.fault_table` from what `test_8_faults.py` ran last (all of it
is in `make campaign`, some in `make test`): {count} faults of {kinds} kinds on the rehearsal host
with the stand-in for vLLM, Debian 12, two cores under other load. {elsewhere} more, which other
tests try, stand below.

Whatever the fault: no traceback; a refusal is one line with cause and remedy; what the user owns
beside ours is not touched, nor is the API key; afterwards the server answers, and one more deploy
changes nothing. "The server goes on": the same process serves from before the fault until then.

Not tried: a jump of the clock itself (the host shares this machine's, and a container may not set
it; files and stamps of another time stand in for it), and a cgroup's out-of-memory killer (the
host may not set its limit; what the memory guard does is tried by the tests below).
"""


def record(fault: Fault, result: str, seconds: float) -> None:
    """Remember how a fault ended."""
    found = _records() | {
        fault.name: {
            "result": result,
            "seconds": round(seconds),
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        }
    }
    fresh = _RECORDS.with_suffix(".new")
    fresh.write_text(json.dumps(found, indent=1), "utf-8")
    fresh.rename(_RECORDS)


def _records() -> dict[str, Mapping[str, object]]:
    try:
        found: dict[str, Mapping[str, object]] = json.loads(_RECORDS.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return found


def render() -> str:
    """The whole document."""
    rows = [_row("kind", "fault", "where", "what must hold", "result"), "|---|---|---|---|---|"]
    found = _records()
    for fault in FAULTS:
        last = found.get(fault.name)
        result = "{result}, {date}, {seconds} s".format(**last) if last else "not run"
        daily = ", in `make test`" if fault.daily else ""
        rows.append(_row(fault.kind, fault.name, fault.where, fault.must_hold, result + daily))
    others = [_row("kind", "fault", "where", "what must hold", "test"), "|---|---|---|---|---|"]
    for each in ELSEWHERE:
        test = f"`test_{each.file}.py`: `{each.test}`"
        others.append(_row(each.kind, each.name, each.where, each.must_hold, test))
    head = _HEAD.format(
        count=len(FAULTS), kinds=len({fault.kind for fault in FAULTS}), elsewhere=len(ELSEWHERE)
    )
    return "\n".join([head, *rows, "", "## Tried by other tests", "", *others, ""])


def _row(*cells: str) -> str:
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
