"""vLLM's wheel as a build made it, and what is kept of one that took long to compile.

The folder holds the wheel and a note that vouches for it; the note is written last.
"""

import dataclasses
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostkit.host import paths
from hostkit.host.process import Failure, read_json, write_atomic
from hostkit.release import wheel
from hostkit.release.overlay import Outcome

NOTE = "built.json"


@dataclass(frozen=True)
class Made:
    """A wheel to install, how each patch ended in it, and where it comes from, for the manifest."""

    wheel: Path
    outcomes: tuple[Outcome, ...]
    origin: Mapping[str, Any]


def keep(name: str, made: Made) -> Made:
    """Keep the wheel of a release; returns the same with the kept file."""
    folder = paths.BUILT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kept = folder / made.wheel.name
    shutil.move(made.wheel, kept)
    note = {
        "wheel": kept.name,
        "sha256": wheel.sha256(kept),
        "outcomes": [dataclasses.asdict(outcome) for outcome in made.outcomes],
        "origin": dict(made.origin),
    }
    write_atomic(folder / NOTE, json.dumps(note, indent=2) + "\n")
    return dataclasses.replace(made, wheel=kept)


def find(name: str) -> Made | None:
    """The kept wheel of a release; None when there is none, or a damaged one."""
    folder = paths.BUILT / name
    try:
        note = read_json(folder / NOTE)
        kept = folder / Path(note["wheel"]).name
        if wheel.sha256(kept) != note["sha256"]:
            return None
        outcomes = tuple(Outcome(**each) for each in note["outcomes"])
        return Made(kept, outcomes, note["origin"])
    except (Failure, OSError, KeyError, TypeError):
        return None
