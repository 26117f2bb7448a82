"""A report's tables: what is said of the figures, and why where there is none."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from tasks.shared.traffic.figures import RAM, SOURCES, SSD, Figures
from tasks.shared.traffic.histograms import Histogram
from tasks.shared.traffic.texts import UNKNOWN, count, flow, quantile, seconds, share, size

# Prometheus looks every 15 s: what lacks at the edges is no gap.
_UNSEEN_S = 120


@dataclass(frozen=True)
class Table:
    """A title, the columns' headings (the first one is of the rows' names), and the rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def tables(figures: Figures) -> list[Table]:
    """Everything that a report says in words and numbers."""
    found = (_requests, _latency, _by_source, _hits, _tiers, _saved, _engine, _disk)
    return [table for make in found for table in make(figures)]


def caveats(figures: Figures, zone: datetime.tzinfo) -> list[str]:
    """What a reader has to know before reading the figures."""
    found = []
    begins = figures.first_sample
    if begins is not None and begins - figures.stretches[0].start > _UNSEEN_S:
        found.append(
            f"Prometheus' records begin at {moment(begins, zone)}, "
            f"{seconds(begins - figures.stretches[0].start)} after the time asked for"
        )
    recorded_s = figures.recorded_s
    if recorded_s - figures.watched_s > _UNSEEN_S:
        found.append(
            f"{seconds(figures.watched_s)} of {seconds(recorded_s)} were watched: what happened in "
            "the rest is missing here, or counted at its end"
        )
    if not figures.ended:
        found.append("no request ended in this time: there are no figures of any")
    return found


def moment(at: float, zone: datetime.tzinfo) -> str:
    """A time as a reader's clock shows it."""
    return datetime.datetime.fromtimestamp(at, zone).strftime("%a %Y-%m-%d %H:%M")


def _requests(figures: Figures) -> Iterator[Table]:
    ends = ", ".join(
        f"{count(number)} {reason}"
        for reason, number in sorted(figures.requests.items(), key=lambda each: -each[1])
    )
    tokens = figures.tokens
    busy = {name: figures.gauge(name) for name in ("running", "waiting")}
    yield Table(
        "Requests",
        ("", ""),
        (
            ("ended", f"{count(figures.ended)}{f' ({ends})' if ends else ''}"),
            ("prompt tokens", count(tokens.total if tokens else None)),
            ("generated tokens", count(figures.counts.total("vllm:generation_tokens_total"))),
            *(
                (f"{name} at once, at most", count(gauge.max if gauge else None))
                for name, gauge in busy.items()
            ),
            ("server up", f"{seconds(figures.up_s)} of {seconds(figures.watched_s)} watched"),
            ("server starts", count(figures.starts)),
        ),
    )


_PERCENTILES = ("requests", "mean", "50 %", "90 %", "95 %", "99 %")


def _percentiles(name: str, histogram: Histogram | None) -> tuple[str, ...]:
    if histogram is None:
        return (name, *(UNKNOWN for _ in _PERCENTILES))
    shares = (0.5, 0.9, 0.95, 0.99)
    found = (quantile(histogram.quantile(each)) for each in shares)
    return (name, count(histogram.count), seconds(histogram.mean), *found)


def _latency(figures: Figures) -> Iterator[Table]:
    yield Table(
        "Latency",
        ("", "observed", *_PERCENTILES[1:]),
        (
            _percentiles("to the first token", figures.first_token()),
            _percentiles("between tokens", figures.between_tokens),
        ),
        note="Percentiles are read from histograms: within a bucket they are guessed.",
    )


def _by_source(figures: Figures) -> Iterator[Table]:
    found = {title: figures.first_token(source) for source, title in SOURCES.items()}
    note = "A prompt came from where most of its tokens did."
    if not any(found.values()):
        note = (
            "Not measured: prompt_source_metrics is off, or the release is older than it, "
            "or no server ran."
        )
    yield Table(
        "Time to the first token, by where the prompt came from",
        ("", *_PERCENTILES),
        tuple(_percentiles(title, histogram) for title, histogram in found.items()),
        note,
    )


def _hits(figures: Figures) -> Iterator[Table]:
    tokens = figures.tokens
    parts = (tokens.computed, tokens.gpu_cache, tokens.offloaded) if tokens else (None,) * 3
    whole = tokens.total if tokens else None
    names = ("computed", "GPU cache", "offloaded: RAM and SSD")
    yield Table(
        "Prompt tokens, by where they came from",
        ("", "tokens", "share"),
        tuple(
            (name, count(part), share(part, whole)) for name, part in zip(names, parts, strict=True)
        ),
    )


def _tiers(figures: Figures) -> Iterator[Table]:
    found = {name: figures.tier(label) for name, label in (("RAM", RAM), ("SSD", SSD))}
    rows = tuple(
        (
            name,
            count(tier.queries),
            f"{count(tier.hits)} ({share(tier.hits, tier.queries)})",
            flow(tier.read_bytes, tier.read_s),
            flow(tier.written_bytes, tier.written_s),
        )
        for name, tier in found.items()
        if tier
    )
    if rows:
        yield Table(
            "Tiers",
            ("", "chunks asked for", "found", "read", "written"),
            rows,
            note="What the SSD had is read into RAM, found there, and counted there, too. Tokens "
            "are told apart by vLLM only into computed, GPU cache and offloaded.",
        )


def _saved(figures: Figures) -> Iterator[Table]:
    tokens, cost = figures.tokens, figures.cost
    if cost is None or tokens is None:
        yield Table(
            "Prefill time not spent",
            ("", ""),
            (("saved", UNKNOWN),),
            note="What a computed token takes is not known: there was none, or no time of one.",
        )
        return
    of = "all prompts, cached ones, too" if cost.of_all else "prompts mostly computed"
    yield Table(
        "Prefill time not spent",
        ("", ""),
        (
            ("thanks to the GPU cache", seconds(figures.saved_s(tokens.gpu_cache))),
            ("thanks to RAM and SSD", seconds(figures.saved_s(tokens.offloaded))),
            ("spent on reading RAM and SSD", seconds(figures.loading_s)),
        ),
        note=f"Estimated: tokens not computed times {cost.s_per_token * 1000:.3g} ms, the prefill "
        f"time per computed token of {of}. Of prefills side by side each counts its whole time.",
    )


def _engine(figures: Figures) -> Iterator[Table]:
    total, kv = figures.counts.total, figures.gauge("kv_usage")
    drafted = total("vllm:spec_decode_num_draft_tokens_total")
    accepted = total("vllm:spec_decode_num_accepted_tokens_total")
    evicted = total("vllm:kv_block_lifetime_seconds_count")
    rows = [
        ("KV pool in use, mean", share(kv.avg if kv else None, 1.0)),
        ("KV pool in use, at most", share(kv.max if kv else None, 1.0)),
        ("preemptions", count(total("vllm:num_preemptions_total"))),
    ]
    if evicted is not None:
        rows.append(("GPU blocks evicted, of those sampled", count(evicted)))
    if drafted is not None:
        text = f"{count(accepted)} of {count(drafted)} ({share(accepted, drafted)})"
        rows.append(("speculated tokens accepted", text))
    yield Table("Engine", ("", ""), tuple(rows))


def _disk(figures: Figures) -> Iterator[Table]:
    growth = figures.growth
    if growth is None:
        return
    blocks, removed = figures.rise("removed_blocks"), figures.rise("removed_bytes")
    pace = "watched for less than an hour" if growth.per_day is None else ""
    if growth.per_day is not None:
        pace = f"{'+' if growth.per_day >= 0 else ''}{size(growth.per_day)} a day"
    left = growth.days_left
    yield Table(
        "SSD tier",
        ("", ""),
        (
            ("size", f"{size(growth.size)} of {size(growth.quota)}"),
            ("growth", pace),
            ("days until the quota", UNKNOWN if left is None else f"{left:,.1f}"),
            ("pruned", f"{count(blocks)} blocks, {size(removed)}"),
        ),
        note="Growth is what stays after pruning.",
    )
