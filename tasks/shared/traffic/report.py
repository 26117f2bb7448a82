"""A report as a whole: on the terminal, and as one HTML file that needs nothing besides."""

import datetime
import io
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pyinfra.api.exceptions import DeployError
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from tasks.shared.facts.traffic import Traffic
from tasks.shared.traffic import charts, periods, rows
from tasks.shared.traffic.figures import Figures

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

FOLDER = Path("reports")

_POINTS = 200
_WIDTH = 100


class NoFigures(DeployError):
    """There is nothing to report; the reason in one line."""

    def __init__(self, reason: str, host: str = "") -> None:
        super().__init__(f"{host and f'{host}: '}no report: {reason}")


@dataclass(frozen=True)
class Asked:
    """Which time, as the operator put it."""

    intervals: list[periods.Interval]
    zone: datetime.tzinfo
    only: str = ""
    """Weekdays and hours of day, when it is not all of it."""

    @property
    def step_s(self) -> int:
        """Between the points of a picture: whole minutes, so many that it stays readable."""
        span = self.intervals[-1][1] - self.intervals[0][0]
        return 60 * max(1, math.ceil(span / _POINTS / 60))

    @property
    def period(self) -> str:
        first, last = self.intervals[0][0], self.intervals[-1][1]
        only = f", only {self.only}" if self.only else ""
        zone = datetime.datetime.fromtimestamp(last, self.zone).tzname()
        return (
            f"from {rows.moment(first, self.zone)} until {rows.moment(last, self.zone)} "
            f"({zone}){only}"
        )


@dataclass(frozen=True)
class Report:
    """What is shown, in words and numbers."""

    title: str
    asked: Asked
    figures: Figures

    @property
    def caveats(self) -> list[str]:
        return rows.caveats(self.figures, self.asked.zone)

    def lines(self) -> list[str]:
        """The report for a terminal."""
        out = io.StringIO()
        console = Console(file=out, width=_WIDTH, highlight=False, color_system=None)
        console.print(f"{self.title}, {self.asked.period}", markup=False)
        for caveat in self.caveats:
            console.print(f"Note: {caveat}", markup=False)
        for table in rows.tables(self.figures):
            console.print()
            console.print(table.title, markup=False)
            console.print(_drawn(table))
            if table.note:
                console.print(f"  {table.note}", markup=False)
        return [line.rstrip() for line in out.getvalue().splitlines()]

    def page(self) -> str:
        """The report as a page: everything it needs is in it."""
        environment = Environment(
            loader=FileSystemLoader("templates"),
            undefined=StrictUndefined,
            autoescape=True,
            trim_blocks=True,
            keep_trailing_newline=True,
        )
        return environment.get_template("report.html.j2").render(
            title=self.title,
            period=self.asked.period,
            caveats=self.caveats,
            tables=rows.tables(self.figures),
            charts=charts.charts(self.figures, self.asked.step_s, self.asked.zone),
        )


def asked(settings: "Settings", now: float) -> Asked:
    """Which time the settings ask for. Raises NoFigures when there is none that could be."""
    if not settings.metrics:
        raise NoFigures("metrics = False: nothing is recorded")
    zone = periods.zone(settings.time_zone)
    try:
        intervals = periods.intervals(
            now,
            hours=settings.hours,
            weekdays=settings.weekdays,
            hours_of_day=settings.hours_of_day,
            time_zone=zone,
        )
    except ValueError as error:
        raise NoFigures(str(error)) from None
    only = " ".join(filter(None, (settings.weekdays, settings.hours_of_day)))
    return Asked(intervals, zone, only)


def make(host: str, asked: Asked, traffic: Traffic) -> Report:
    """The report of what a host told. Raises NoFigures."""
    if traffic.problem:
        raise NoFigures(traffic.problem, host)
    figures = Figures(traffic)
    if figures.first_sample is None:
        raise NoFigures(
            f"Prometheus has recorded nothing of the server {asked.period}: it began later, or "
            "keeps it no longer (metrics_retention_days)",
            host,
        )
    return Report(f"Traffic of {host}", asked, figures)


def write(report: Report, host: str, folder: Path = FOLDER) -> Path:
    """Write the page; a file of its own for each host and time."""
    last = report.asked.intervals[-1][1]
    when = datetime.datetime.fromtimestamp(last, report.asked.zone).strftime("%Y-%m-%d-%H%M%S")
    folder.mkdir(exist_ok=True)
    file = folder / f"{re.sub(r'[^A-Za-z0-9.-]+', '-', host).strip('-.')}-{when}.html"
    file.write_text(report.page(), encoding="utf-8")
    return file.resolve()


def windows_path(file: PurePath) -> str | None:
    r"""A file's path for Windows, \\wsl.localhost\…; None where this machine is no WSL.

    WSL tells its name in $WSL_DISTRO_NAME.
    """
    name = os.environ.get("WSL_DISTRO_NAME")
    return f"\\\\wsl.localhost\\{name}" + str(file).replace("/", "\\") if name else None


def _drawn(table: rows.Table) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, show_header=any(table.columns), pad_edge=False)
    for number, column in enumerate(table.columns):
        is_text = number == 0 or not any(table.columns)
        drawn.add_column(column, justify="left" if is_text else "right", overflow="fold")
    for row in table.rows:
        drawn.add_row(*_plain(row))
    return drawn


def _plain(row: Sequence[str]) -> list[str]:
    # What stands in square brackets would be markup.
    return [cell.replace("[", "\\[") for cell in row]
