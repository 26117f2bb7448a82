"""Prometheus's text format: metrics as lines, and the lines of a text that are in it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COMMENT = re.compile(r"# (HELP|TYPE) [a-zA-Z_:][\w:]* \S.*")
_SAMPLE = re.compile(r"[a-zA-Z_:][\w:]*(\{[^{}]*\})? [-+]?(\d[\d.]*(e[-+]?\d+)?|Inf|NaN)")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}


@dataclass(frozen=True)
class Sample:
    """One value of a metric, and the labels that tell it from the metric's others."""

    value: float
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Metric:
    """A metric under one name; without samples it is not shown."""

    name: str
    type: Literal["gauge", "counter"]
    help: str
    samples: tuple[Sample, ...]


def gauge(name: str, help: str, value: float | None, **labels: str) -> Metric:
    """A gauge with one sample; None leaves it out."""
    return Metric(name, "gauge", help, () if value is None else (Sample(value, labels),))


def counter(name: str, help: str, value: float | None) -> Metric:
    """A counter with one sample; None leaves it out."""
    return Metric(name, "counter", help, () if value is None else (Sample(value, {}),))


def render(metrics: Iterable[Metric]) -> str:
    """The text of all of them, in their order."""
    lines = []
    for metric in metrics:
        if metric.samples:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.type}"]
        lines += [f"{metric.name}{_labels(s.labels)} {number(s.value)}" for s in metric.samples]
    return "".join(f"{line}\n" for line in lines)


def number(value: float) -> str:
    """A value as short as it can be written without loss."""
    return str(int(value)) if value == int(value) else repr(float(value))


def valid_lines(text: str) -> str:
    """The text without lines that Prometheus could not read: one would cost it all the others."""
    lines = text.splitlines()
    kept = [line for line in lines if _COMMENT.fullmatch(line) or _SAMPLE.fullmatch(line)]
    return "".join(f"{line}\n" for line in kept)


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in value)
