"""A load test's result as a table, and as a picture."""

import io
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pygal
from pygal.style import CleanStyle
from rich import box
from rich.console import Console
from rich.table import Table

from tasks.shared.load_tests.compare import MEASURES, Comparison, Measure, Result, figure

WIDTH = 118
SPEED = MEASURES[0]


def table(now: Result, before: Result | None, comparison: Comparison) -> list[str]:
    """Lines: a row for each run, each figure with how much worse it is than before."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("run")
    for measure in MEASURES:
        shown.add_column(measure.head, justify="right")
    shown.add_column("accepted", justify="right")
    shown.add_column("article", justify="right")
    for row in now["rows"]:
        cells = [_cell(row["name"], measure, now, comparison) for measure in MEASURES]
        accepted = row["figures"].get("accepted_length")
        shown.add_row(
            row["name"], *cells, f"{accepted:.2f}" if accepted else "", _range(row["name"])
        )
    output = io.StringIO()
    Console(file=output, width=WIDTH, color_system=None).print(shown)
    lines = [line.rstrip() for line in output.getvalue().splitlines() if line.strip()]
    told = _reference()
    if any(_range(row["name"]) for row in now["rows"]):
        lines.append(f"article: {told['source']}: {told['hardware']}; for orientation only")
    return lines


def _cell(row: str, measure: Measure, now: Result, comparison: Comparison) -> str:
    value = figure(now, row, measure.key)
    if value is None:
        return ""
    worse = comparison.changes.get((row, measure.key))
    change = "" if worse is None else f" ({-worse:+.0f} %)" if worse else " (same)"
    return f"{value * measure.scale:.2f}{change}"


def _range(row: str) -> str:
    """The article's figure for a run, whatever its prompts were."""
    found = _reference()[SPEED.key].get(row.partition(", ")[2])
    return "-".join(map(str, found)) if found else ""


@cache
def _reference() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("reference.toml").read_text(encoding="utf-8"))


def picture(now: Result, before: Result | None, file: Path) -> None:
    """Write an SVG with each run's speed, before and now, and the article's where it has one."""
    names = [row["name"] for row in now["rows"] if SPEED.key in row["figures"]]
    chart = pygal.HorizontalBar(
        js=[], style=CleanStyle, print_values=True, height=120 + 60 * len(names), width=1000
    )
    chart.title = f"Tokens a second, {now['host']}, generation {now['digest']}, {now['at']}"
    chart.x_labels = names
    chart.add("now", [figure(now, name, SPEED.key) for name in names])
    if before is not None:
        chart.add(before["at"], [figure(before, name, SPEED.key) for name in names])
    middles = [_middle(name) for name in names]
    if any(middles):
        chart.add(f"article ({_reference()['hardware']})", middles)
    file.write_bytes(chart.render())


def _middle(row: str) -> float | None:
    found = _reference()[SPEED.key].get(row.partition(", ")[2])
    return sum(found) / len(found) if found else None
