"""Pictures of a report, as SVG that stands in an HTML page and needs nothing besides."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pygal
from pygal.style import Style

from tasks.shared.traffic.figures import SOURCES, Figures
from tasks.shared.traffic.texts import count, seconds, size

_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")  # told apart by colour-blind, too
_STYLE = Style(
    background="transparent",
    plot_background="transparent",
    foreground="#666666",
    foreground_strong="#666666",
    foreground_subtle="#999999",
    guide_stroke_color="#8883",
    major_guide_stroke_color="#8883",
    guide_stroke_dasharray="none",
    major_guide_stroke_dasharray="none",
    opacity=".75",
    colors=_COLORS,
    font_family="system-ui, sans-serif",
    label_font_size=12,
    major_label_font_size=12,
    legend_font_size=13,
    title_font_size=16,
    no_data_font_size=16,
)


@dataclass(frozen=True)
class Picture:
    """Courses that are drawn together: their names, and what the legend calls them."""

    title: str
    unit: Callable[[float], str]
    courses: dict[str, str]


def _number(value: float) -> str:
    return f"{value:,.4g}"


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


_PICTURES = (
    Picture("Requests ended in {step}", _number, {"requests": "ended"}),
    Picture("Prompt tokens in {step}, by where they came from", count, SOURCES),
    Picture("Tokens generated in {step}", count, {"generated": "generated"}),
    Picture("Time to the first token", seconds, {"ttft_p50": "50 %", "ttft_p95": "95 %"}),
    Picture("Requests at once, at most", _number, {"running": "running", "waiting": "waiting"}),
    Picture("KV pool in use, at most", _percent, {"kv_usage": "in use"}),
    Picture("SSD tier", size, {"tier_bytes": "size", "tier_quota_bytes": "quota"}),
)


def charts(figures: Figures, step_s: int, zone: datetime.tzinfo) -> list[str]:
    """An SVG element each; none for what the host has no figures of."""
    courses = figures.traffic.courses
    drawn = [
        _over_time(picture, courses, step_s, zone)
        for picture in _PICTURES
        if any(courses.get(name) for name in picture.courses)
    ]
    return [*drawn, *_distribution(figures)]


def with_gaps(
    points: Sequence[tuple[float, float]], step_s: float
) -> list[tuple[float, float | None]]:
    """The points, and a hole where one or more are missing: no line leads across it."""
    found: list[tuple[float, float | None]] = []
    for at, value in points:
        if found and at - found[-1][0] > 1.5 * step_s:
            found.append((found[-1][0] + step_s, None))
        found.append((at, value))
    return found


def _over_time(
    picture: Picture,
    courses: Mapping[str, Sequence[tuple[float, float]]],
    step_s: int,
    zone: datetime.tzinfo,
) -> str:
    def clock(at: datetime.datetime) -> str:
        return at.astimezone(zone).strftime("%a %d %H:%M")

    chart = pygal.DateTimeLine(
        title=picture.title.format(step=seconds(step_s)),
        x_value_formatter=clock,
        value_formatter=picture.unit,
        x_label_rotation=20,
        **_look(),
    )
    for name, title in picture.courses.items():
        points = with_gaps(courses.get(name, []), step_s)
        chart.add(
            title,
            [(datetime.datetime.fromtimestamp(at, datetime.UTC), value) for at, value in points],
            allow_interruptions=True,
        )
    return _svg(chart)


def _distribution(figures: Figures) -> list[str]:
    """How many of the requests of each source had their first token after how long."""
    found = {title: figures.first_token(source) for source, title in SOURCES.items()}
    lines = {title: each.shares() for title, each in found.items() if each and each.count}
    if not lines:
        return []
    # pygal has no logarithmic abscissa: the bounds of the buckets are labels at equal distances.
    bounds = [bound for bound, _ in next(iter(lines.values()))]
    chart = pygal.Line(
        title="Requests that had their first token within this time",
        value_formatter=_percent,
        x_labels=[seconds(bound) for bound in bounds],
        x_label_rotation=45,
        range=(0, 1),
        **_look(),
    )
    for title, shares in lines.items():
        chart.add(title, [share for _, share in shares])
    return [_svg(chart)]


def _look() -> dict[str, object]:
    return {
        "style": _STYLE,
        "width": 900,
        "height": 320,
        # A point between two holes has no line.
        "dots_size": 1.5,
        "legend_at_bottom": True,
        "js": (),
        "include_x_axis": True,
        "max_scale": 6,
        "disable_xml_declaration": True,
        "explicit_size": False,
    }


def _svg(chart: pygal.graph.graph.Graph) -> str:
    return str(chart.render(is_unicode=True))
