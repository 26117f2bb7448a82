"""A load test's result as a table, and as a picture."""

import io
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pygal
from pygal.style import CleanStyle
from rich import box
from rich.console import Console
from rich.table import Table

from tasks.shared.load_tests import drift
from tasks.shared.load_tests.compare import (
    MEASURES,
    SCENARIO_MEASURES,
    Comparison,
    Measure,
    Result,
    figure,
)

WIDTH = 118
Row = Mapping[str, Any]
SPEED = MEASURES[0]


def table(now: Result, comparison: Comparison) -> list[str]:
    """Lines: a row for each run, one for each figure of the scenarios, all with their changes."""
    runs = [row for row in now["rows"] if SPEED.key in row["figures"]]
    lines = _runs(runs, now, comparison) if runs else []
    lines += _scenarios([row for row in now["rows"] if row not in runs], now, comparison)
    told = _reference()
    return [*lines, f"article: {told['source']}: {told['hardware']}; for orientation only"]


def _runs(rows: Sequence[Row], now: Result, comparison: Comparison) -> list[str]:
    shown = _table("run", *(measure.head for measure in MEASURES), "accepted", "article")
    for row in rows:
        cells = [_cell(row["name"], measure, now, comparison) for measure in MEASURES]
        accepted = row["figures"].get("accepted_length")
        shown.add_row(
            row["name"], *cells, f"{accepted:.2f}" if accepted else "", _range(row["name"])
        )
    return _lines(shown)


def _scenarios(rows: Sequence[Row], now: Result, comparison: Comparison) -> list[str]:
    shown = _table("scenario", "s", "article")
    notes = [f"{row['name']}: {row['note']}" for row in rows if row.get("note")]
    notes += [
        f"{row['name']}: {each}" for row in rows for each in drift.drifts(row.get("samples", []))
    ]
    for row in rows:
        for measure in SCENARIO_MEASURES:
            if cell := _cell(row["name"], measure, now, comparison):
                told = _reference()["scenarios"].get(measure.key, "")
                shown.add_row(f"{row['name']}: {measure.title}", cell, str(told))
    return [*(_lines(shown) if shown.row_count else []), *notes]


def _table(first: str, *others: str) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column(first)
    for title in others:
        made.add_column(title, justify="right")
    return made


def _lines(made: Table) -> list[str]:
    output = io.StringIO()
    Console(file=output, width=WIDTH, color_system=None).print(made)
    return [line.rstrip() for line in output.getvalue().splitlines() if line.strip()]


def _cell(row: str, measure: Measure, now: Result, comparison: Comparison) -> str:
    value = figure(now, row, measure.key)
    if value is None:
        return ""
    worse = comparison.changes.get((row, measure.key))
    if worse is None:
        change = ""
    elif worse:
        # Its own change, as it reads beside the figure; a speed is judged as the time it costs.
        percent = 100 / (1 + worse / 100) - 100 if measure.higher_is_better else worse
        change = f" ({percent:+.0f} %)"
    else:
        change = " (same)"
    return f"{value * measure.scale:.2f}{change}"


def _range(row: str) -> str:
    """The article's figure for a run, whatever its prompts were."""
    found = _reference()[SPEED.key].get(row.partition(", ")[2])
    return "-".join(map(str, found)) if found else ""


@cache
def _reference() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("reference.toml").read_text(encoding="utf-8"))


def picture(now: Result, before: Result | None, file: Path) -> bool:
    """Write an SVG with each run's speed, before and now, and the article's where it has one.

    Of a soak test: its speed from round to round. False when there is no speed to draw.
    """
    samples = [sample for row in now["rows"] for sample in row.get("samples", [])]
    names = [row["name"] for row in now["rows"] if SPEED.key in row["figures"]]
    if samples:
        chart = _rounds(samples)
    elif names:
        chart = _bars(names, now, before)
    else:
        return False
    chart.title = f"Tokens a second, {now['host']}, generation {now['digest']}, {now['at']}"
    file.write_bytes(chart.render())
    return True


def _bars(names: Sequence[str], now: Result, before: Result | None) -> Any:
    names = [*reversed(names)]  # it draws from the bottom up
    height = 160 + 60 * len(names)
    look = {"js": [], "style": CleanStyle, "truncate_legend": -1, "width": 1000}
    chart = pygal.HorizontalBar(print_values=True, height=height, **look)
    chart.x_labels = names
    chart.add("now", [figure(now, name, SPEED.key) for name in names])
    if before is not None:
        chart.add(before["at"], [figure(before, name, SPEED.key) for name in names])
    middles = [_middle(name) for name in names]
    if any(middles):
        chart.add("the article's", middles)
    return chart


def _rounds(samples: Sequence[Row]) -> Any:
    points = [(s["at_s"] / 3600, s[SPEED.key]) for s in samples if SPEED.key in s]
    top = max((speed for _, speed in points), default=1)
    chart = pygal.XY(js=[], style=CleanStyle, width=1000, range=(0, top), x_title="hours")
    chart.add("each round", points)
    return chart


def _middle(row: str) -> float | None:
    found = _reference()[SPEED.key].get(row.partition(", ")[2])
    return sum(found) / len(found) if found else None
