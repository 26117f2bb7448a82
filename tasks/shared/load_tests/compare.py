"""Is a server slower than it was? Pure functions over two load tests' results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.shared.load_tests import drift

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Measure:
    """A figure that a load test is judged by; differences of at most `noise` are none."""

    key: str
    title: str
    unit: str
    scale: float = 1
    higher_is_better: bool = False
    noise: float = 0

    @property
    def head(self) -> str:
        return self.title if self.title == self.unit else f"{self.title} ({self.unit})"


MEASURES = (
    Measure("answer_tokens_per_s", "tokens/s", "tokens/s", higher_is_better=True),
    Measure("first_token_p50_ms", "first token", "s", scale=0.001, noise=20),
    Measure("token_p50_ms", "per token", "ms", noise=1),
)
"""Of a run."""


def _first_token(key: str, title: str) -> Measure:
    return Measure(f"{key}_first_token_ms", title, "s", scale=0.001, noise=50)


SCENARIO_MEASURES = (
    _first_token("alone", "first token of a short question, alone"),
    _first_token("late", "first token of the same, come during a long prompt"),
    _first_token("long", "first token of that long prompt"),
    _first_token("computed", "first token of a document, computed"),
    _first_token("gpu", "from the GPU"),
    _first_token("ram", "evicted, from RAM"),
    _first_token("ssd", "evicted, from SSD"),
    _first_token("evicted_computed", "evicted, computed again"),
    _first_token("restarted_ssd", "after a restart, from SSD"),
    _first_token("restarted_ram", "after a restart, from RAM"),
    _first_token("restarted_computed", "after a restart, computed again"),
)
"""Of what a scenario measures besides; only where it came from there is there a figure."""

_BY_KEY = {each.key: each for each in (*MEASURES, *SCENARIO_MEASURES)}


@dataclass(frozen=True)
class Comparison:
    """`basis` says what is compared with, `problems` what makes the test fail; a line each."""

    basis: tuple[str, ...]
    problems: tuple[str, ...]
    changes: Mapping[tuple[str, str], float]
    """By a row's name and a measure's key: percent worse, negative when better."""


def comparable(now: Result, before: Result) -> str | None:
    """Why two results cannot be compared at all; None when they can."""
    if now["hardware"] != before["hardware"]:
        return (
            f"the hardware was {', '.join(before['hardware'])} and is {', '.join(now['hardware'])}"
        )
    return None


def compare(now: Result, before: Result | None, tolerance: int) -> Comparison:
    """Judge a result by the one before; failed requests and runs left out count without one, too.

    `tolerance` is in percent.
    """
    problems = [
        f"{row['name']}: {row['failed']} of {row['failed'] + row['completed']} requests failed"
        + (f": {row['error']}" if row.get("error") else "")
        for row in now["rows"]
        if row.get("failed")
    ]
    for row in now["rows"]:
        problems += drift.problems(row.get("samples", []), tolerance)
    if now["not_run"]:
        done = len(now["rows"])
        problems.append(
            f"{done} of {done + len(now['not_run'])} runs were made in the time allowed: raise "
            "load_test_minutes or ask for less"
        )
    if before is None:
        return Comparison(("no earlier result of this host to compare with",), (*problems,), {})
    if why_not := comparable(now, before):
        return Comparison((f"not compared with {_name(before)}: {why_not}",), (*problems,), {})
    changes = _changes(now, before)
    for (row, key), worse in changes.items():
        measure = _BY_KEY[key]
        if worse > tolerance:
            problems.append(_problem(row, measure, now, before, worse, tolerance))
    return Comparison(tuple(_basis(now, before, changes)), tuple(problems), changes)


def figure(result: Result, row: str, key: str) -> float | None:
    """One figure of a result; None when it was not measured."""
    for each in result["rows"]:
        if each["name"] == row:
            value = each["figures"].get(key)
            return None if value is None else float(value)
    return None


def _changes(now: Result, before: Result) -> dict[tuple[str, str], float]:
    asked = {row["name"]: row["asked"] for row in before["rows"]}
    changes = {}
    for row in now["rows"]:
        if asked.get(row["name"]) != row["asked"]:
            continue
        for measure in _BY_KEY.values():
            new, old = (figure(each, row["name"], measure.key) for each in (now, before))
            if new is not None and old:
                changes[row["name"], measure.key] = _worse(measure, new, old)
    return changes


def _worse(measure: Measure, new: float, old: float) -> float:
    """Percent by which it is worse: of the old value, and for a speed as the time that it costs."""
    if abs(new - old) <= measure.noise:
        return 0.0
    if measure.higher_is_better:
        return 100 * (old / new - 1) if new else float("inf")
    return 100 * (new / old - 1)


def _problem(
    row: str, measure: Measure, now: Result, before: Result, worse: float, tolerance: int
) -> str:
    new, old = (figure(each, row, measure.key) or 0 for each in (now, before))
    scale = measure.scale
    return (
        f"{row}: {measure.head} {new * scale:.2f}, before {old * scale:.2f}: {worse:.0f} % worse, "
        f"{tolerance} % are tolerated (load_test_tolerance)"
    )


def _basis(now: Result, before: Result, changes: Mapping[tuple[str, str], float]) -> Sequence[str]:
    same = now["digest"] == before["digest"]
    generation = "the same generation" if same else f"another generation ({before['digest']})"
    lines = [f"compared with {_name(before)}, {generation}"]
    lines += [
        f"{what} was {before['versions'].get(what)} and is {version}"
        for what, version in now["versions"].items()
        if before["versions"].get(what) != version
    ]
    judged = {row for row, _ in changes}
    new = [row["name"] for row in now["rows"] if row["name"] not in judged]
    if new:
        lines.append(f"not compared, since not asked in the same way before: {'; '.join(new)}")
    return lines


def _name(result: Result) -> str:
    return f"the test of {result['at']}"
