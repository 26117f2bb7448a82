"""What a check of a host says, and all of it as one table."""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

Level = Literal["ok", "to do", "warning", "refusal", "problem"]
"""What a check before a deploy refuses is a refusal; what that deploy cures, to do; what is wrong
with a host, a problem."""

_COLORS = {"ok": None, "to do": None, "warning": "yellow", "refusal": "red", "problem": "red"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    what: str
    found: str
    wanted: str = ""
    remedy: str = ""
    cured_by: str = ""
    """The task that cures it, if one does."""


def ok(what: str, found: str) -> Finding:
    """Nothing to do."""
    return Finding("ok", what, found)


def warning(what: str, found: str, wanted: str, remedy: str, cured_by: str = "") -> Finding:
    """Allowed, and will hurt."""
    return Finding("warning", what, found, wanted, remedy, cured_by)


def refusal(what: str, found: str, wanted: str, remedy: str, cured_by: str = "") -> Finding:
    """Would fail later."""
    return Finding("refusal", what, found, wanted, remedy, cured_by)


def problem(what: str, found: str, wanted: str, remedy: str) -> Finding:
    """Is not as it should be."""
    return Finding("problem", what, found, wanted, remedy)


def table(
    findings: Sequence[Finding], *, with_ok: bool = True, worst: Level = "refusal"
) -> list[tuple[str, str | None]]:
    """The findings as lines, each with its color: the worst last, where a terminal shows them.

    Without `with_ok` what is in order is counted only. `worst` is what the worst are called here.
    """
    good = [each for each in findings if each.level == "ok"]
    bad = [each for each in findings if each.level == "to do"]
    bad += [each for each in findings if each.level == "warning"]
    bad += [each for each in findings if each.level == worst]
    shown = (good if with_ok else []) + bad
    width = max((len(each.what) for each in shown), default=0)
    lines: list[tuple[str, str | None]] = []
    for each in shown:
        color = _COLORS[each.level]
        lines.append((_row(each, width), color))
        if each.level == "to do":
            lines.append((f"  {'':8}   this run does it: {each.cured_by}", color))
        elif each.remedy:
            cure = f" ({each.cured_by} does it)" if each.cured_by else ""
            lines.append((f"  {'':8}   {each.remedy}{cure}", color))
    counts = [_count(bad, "warning", "warnings"), _count(bad, worst, f"{worst}s")]
    counts = [*([f"{todo} to do"] if (todo := _todo(bad)) else []), *counts]
    lines.append((f"  {len(good)} ok, {', '.join(counts)}", None))
    return lines


def left_to_do(findings: Sequence[Finding]) -> list[Finding]:
    """The same where the tasks that cure follow: what they cure is no refusal."""
    return [
        replace(each, level="to do") if each.level == "refusal" and each.cured_by else each
        for each in findings
    ]


def _todo(findings: Sequence[Finding]) -> int:
    return sum(each.level == "to do" for each in findings)


def _row(finding: Finding, width: int) -> str:
    wanted = f"; wanted: {finding.wanted}" if finding.wanted else ""
    return f"  {finding.level:8} {finding.what:{width}}  {finding.found}{wanted}"


def _count(findings: Iterable[Finding], one: Level, many: str) -> str:
    number = sum(each.level == one for each in findings)
    return f"{number} {one if number == 1 else many}"


@cache
def _thresholds() -> dict[str, dict[str, Any]]:
    file = Path(__file__).with_name("thresholds.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def threshold(name: str) -> Any:
    """A value of thresholds.toml."""
    return _thresholds()[name]["value"]


def is_below(version: str, name: str) -> bool:
    """Is a dotted version older than this threshold's? 6.6.87.2-x is older than 6.6.114."""
    return parts(version) < parts(threshold(name))


def parts(version: str) -> tuple[int, ...]:
    """The leading numbers of a version."""
    numbers = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
