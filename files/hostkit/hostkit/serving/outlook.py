"""What the control machine wants to know before an upgrade, to say what it will cost."""

import json
import os
import re
from pathlib import Path
from typing import Any

from hostkit.generation import generations
from hostkit.host import paths
from hostkit.serving import goodstart

_TIER = re.compile(r'root_dir"?: "([^"\n]+)"')


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("outlook", help="SSD tier and last good start, as JSON")
    parser.set_defaults(run=lambda _args: _print())


def _print() -> int:
    current = generations.linked(paths.CURRENT)
    start = goodstart.of_generation(current)
    tier = tier_of(current)
    print(
        json.dumps(
            {
                "tier_bytes": size(tier) if tier else 0,
                "ready_s": start.ready_s if start else None,
            }
        )
    )
    return 0


def tier_of(number: int | None) -> Path | None:
    """The folder of a generation's SSD tier; None when it has none."""
    if number is None:
        return None
    try:
        found = _TIER.search((generations.folder(number) / "serve.yaml").read_text())
    except OSError:
        return None
    return Path(found[1]) if found else None


def size(folder: Path) -> int:
    """Bytes of the files below a folder; what vanishes meanwhile is left out."""
    total = 0
    for where, _folders, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(where, name)).st_size
            except OSError:
                continue
    return total
