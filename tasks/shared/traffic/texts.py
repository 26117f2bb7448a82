"""Figures as a reader wants them."""

from tasks.shared.traffic.histograms import Quantile

UNKNOWN = "-"


def count(value: float | None) -> str:
    """A number of things: whole, in groups of three digits."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def seconds(value: float | None) -> str:
    """Three digits of it, in the unit that suits."""
    if value is None:
        return UNKNOWN
    if value >= 7200:
        return f"{_tenths(value / 3600)} h"
    if value >= 300:
        return f"{_tenths(value / 60)} min"
    if value >= 1:
        return f"{value:.3g} s"
    return f"{value * 1000:.3g} ms" if value else "0 s"


def _tenths(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def quantile(value: Quantile | None) -> str:
    """A percentile; above the highest bound of a histogram only that is known."""
    if value is None:
        return UNKNOWN
    return f"> {seconds(value.value)}" if value.beyond else seconds(value.value)


def size(value: float | None) -> str:
    """Bytes in decimal units, as disks are sold and quotas set."""
    if value is None:
        return UNKNOWN
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def flow(moved: float | None, took_s: float | None) -> str:
    """Bytes, and how long moving them took."""
    return UNKNOWN if moved is None else f"{size(moved)} in {seconds(took_s)}"


def share(part: float | None, whole: float | None) -> str:
    """A percentage; unknown of nothing."""
    if part is None or not whole:
        return UNKNOWN
    return f"{100 * part / whole:.1f} %"
