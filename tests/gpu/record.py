"""What was measured: lines of JSON in RESULTS/results.jsonl, and a table at the end."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from statistics import median
from typing import Any

from tests.gpu import profile

_written: list[tuple[str, dict[str, Any]]] = []


def record(case: str, **figures: Any) -> None:
    """Write down figures of a case; the key names the unit: `ready_s`, `pool_tokens`."""
    rounded = {key: _rounded(value) for key, value in figures.items()}
    _written.append((case, rounded))
    profile.RESULTS.mkdir(parents=True, exist_ok=True)
    line = {"case": case, "gpu": gpu_names()} | rounded
    with (profile.RESULTS / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def gpu_names() -> str:
    names = [name for name, _ in profile.gpus()]
    return f"{len(names)} x {names[0]}" if names else "none"


def table() -> str:
    """All figures of this run, a line each."""
    rows = [(case, key, value) for case, figures in _written for key, value in figures.items()]
    width = max((len(f"{case}  {key}") for case, key, _ in rows), default=0)
    return "\n".join(f"{f'{case}  {key}':<{width}}  {value}" for case, key, value in rows)


def milliseconds(seconds: list[float]) -> float:
    """The median in ms."""
    return 1000 * median(seconds)


def markdown(lines: list[str]) -> str:
    """A table for each set of GPUs: case, figure, value."""
    rows: dict[str, list[str]] = {}
    for line in lines:
        entry = json.loads(line)
        case, gpu = entry.pop("case"), entry.pop("gpu")
        table = rows.setdefault(
            gpu, [f"## {gpu}", "", "| case | figure | value |", "|---|---|---|"]
        )
        table += [f"| {case} | {key} | {value} |" for key, value in entry.items()]
    return "\n\n".join("\n".join(table) for table in rows.values())


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value


if __name__ == "__main__":
    print(markdown([line for name in sys.argv[1:] for line in Path(name).read_text().splitlines()]))
