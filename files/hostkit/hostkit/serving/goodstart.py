"""What a good start was like, written down with its generation, and how the next one compares."""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from hostkit.generation import generations
from hostkit.host import paths
from hostkit.host.process import write_atomic
from hostkit.serving import server

FILE = "start.json"
POOL_WARNS_PERCENT = 3.0
"""A pool that is so much smaller points at memory that something else holds."""
ACCEPTANCE_WARNS_PERCENT = 10.0
SLOWER_WARNS = 1.5

_POOL = re.compile(r"KV cache size: ([\d,]+) tokens")
_BACKEND = re.compile(r"Using (?:AttentionBackendEnum\.)?(\w+) (?:attention )?backend")


@dataclass(frozen=True)
class Start:
    """One start that ended in an answer; what vLLM did not report is None.

    `ready_s` is from the process's start to its answer, `acceptance` the mean number of tokens a
    step of speculative decoding yields, `score` the share of the quality check that was right.
    """

    ready_s: float
    kv_tokens: int | None = None
    backend: str | None = None
    acceptance: float | None = None
    score: float | None = None
    ended: float = 0.0


def of(
    lines: Sequence[str], ready_s: float, metrics: str = "", score: float | None = None
) -> Start:
    """Put together from a start's log and the server's metrics."""
    text = "\n".join(lines)
    pools, backends = _POOL.findall(text), _BACKEND.findall(text)
    return Start(
        round(ready_s, 1),
        int(pools[-1].replace(",", "")) if pools else None,
        backends[-1] if backends else None,
        acceptance(metrics),
        score,
        time.time(),
    )


def acceptance(metrics: str) -> float | None:
    """Mean accepted length: 1 + accepted / drafts; None before anything was drafted."""
    drafts = server.total(metrics, "vllm:spec_decode_num_drafts_total")
    accepted = server.total(metrics, "vllm:spec_decode_num_accepted_tokens_total")
    if not drafts or accepted is None:
        return None
    return round(1 + accepted / drafts, 3)


def record(number: int, start: Start) -> None:
    write_atomic(generations.folder(number) / FILE, json.dumps(asdict(start)) + "\n")


def of_generation(number: int | None) -> Start | None:
    """The last good start of a generation; None when none is on record."""
    if number is None:
        return None
    try:
        found: dict[str, Any] = json.loads((generations.folder(number) / FILE).read_text())
        return Start(**{key: found[key] for key in found if key in {f.name for f in fields(Start)}})
    except (OSError, ValueError, TypeError):
        return None


def last_good(number: int, before: int | None) -> Start | None:
    """What a start of this generation is measured by: its own last one, else the one before's."""
    for each in (number, before, generations.linked(paths.PREVIOUS)):
        found = of_generation(each)
        if found:
            return found
    return None


def compare(now: Start, before: Start, tolerance_percent: float) -> tuple[list[str], list[str]]:
    """Warnings and failures, a line each, of a start measured by an earlier one."""
    warnings, failures = [], []
    if now.kv_tokens and before.kv_tokens:
        lost = 100 * (before.kv_tokens - now.kv_tokens) / before.kv_tokens
        line = (
            f"the KV pool is {now.kv_tokens:,} tokens, {lost:.1f} % smaller than "
            f"{before.kv_tokens:,} at the last good start"
        )
        if lost >= tolerance_percent:
            failures.append(
                f"{line}: free the GPU's memory, or accept it for this run with "
                f"--data kv_pool_tolerance={int(lost) + 1}"
            )
        elif lost >= POOL_WARNS_PERCENT:
            warnings.append(line)
    if now.backend != before.backend and now.backend and before.backend:
        warnings.append(f"the attention backend is {now.backend} and was {before.backend}")
    if now.acceptance and before.acceptance:
        lost = 100 * (1 - now.acceptance / before.acceptance)
        if lost >= ACCEPTANCE_WARNS_PERCENT:
            warnings.append(
                f"MTP's mean accepted length is {now.acceptance} and was {before.acceptance}"
            )
    if before.ready_s and now.ready_s > SLOWER_WARNS * before.ready_s + 5:
        warnings.append(f"the start took {now.ready_s:.0f} s and {before.ready_s:.0f} s before")
    return warnings, failures


def describe(start: Start) -> str:
    """One line for the operator."""
    parts = []
    if start.kv_tokens:
        parts.append(f"KV pool {start.kv_tokens:,} tokens")
    if start.backend:
        parts.append(f"attention backend {start.backend}")
    if start.acceptance:
        parts.append(f"mean accepted length {start.acceptance}")
    if start.score is not None:
        parts.append(f"quality {start.score:.0%}")
    return ", ".join(parts) or "vLLM reported neither its KV pool nor its backend"
