"""Figures for Prometheus, as text files: one for each part of hostkit, replaced as a whole."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hostkit.host import paths, process
from hostkit.metrics import exposition


@dataclass(frozen=True)
class Figure:
    """A metric without labels. A counter's value is what came on top since the last time."""

    name: str
    type: Literal["gauge", "counter"]
    help: str
    value: float


def write(part: str, figures: Sequence[Figure]) -> None:
    """Write vllm_<part>_<name> of each figure to <part>.prom. Counters go on from what it says."""
    before = read(part)
    metrics = []
    for figure in figures:
        name = f"vllm_{part}_{figure.name}"
        earlier = before.get(name, 0.0) if figure.type == "counter" else 0
        sample = exposition.Sample(figure.value + earlier, {})
        metrics.append(exposition.Metric(name, figure.type, figure.help, (sample,)))
    process.write_atomic(_file(part), exposition.render(metrics))


def written() -> str:
    """All of them, as they were written last."""
    files = sorted(paths.HEALTH.glob("*.prom"))
    return exposition.valid_lines("".join(f.read_text("utf-8", "replace") for f in files))


def read(part: str) -> dict[str, float]:
    """The figures of a part, by name; without those whose line is damaged."""
    file = _file(part)
    text = file.read_text("utf-8", "replace") if file.is_file() else ""
    rows = re.findall(r"^(\w+) (\d+(?:\.\d+)?(?:e[+-]\d+)?)$", text, re.MULTILINE)
    return {name: float(value) for name, value in rows}


def _file(part: str) -> Path:
    return paths.HEALTH / f"{part}.prom"
