"""Results on the control machine: results/load_test/<host>/<time>.json, and a picture beside it."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path("results/load_test")


def folder(host: str) -> Path:
    return FOLDER / re.sub(r"[^\w.-]", "_", host)


def save(host: str, result: dict[str, Any]) -> Path:
    """Write a result; the path of its file."""
    file = folder(host) / f"{result['order']['id']}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    staged = file.with_suffix(".new")
    staged.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    staged.replace(file)
    return file


def last_good(host: str, steps: Sequence[str]) -> dict[str, Any] | None:
    """The newest result in order that has any of these steps; a slow one is never compared with.

    Raises ValueError naming a file that cannot be read.
    """
    for file in sorted(folder(host).glob("*.json"), reverse=True):
        try:
            found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            names = {row["name"] for row in found["rows"]}
            if found["verdict"] == "in order" and names & {*steps}:
                return found
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{file} is not a load test's result: remove it") from None
    return None
