"""The KV tiers: do they give back what they take, and is the SSD tier within its limits?

Names of metrics are vLLM 0.31's. It counts what was moved between GPU and RAM for all tiers
together, and what a single tier was asked for, found and moved by the label `tier`: "0:primary" is
RAM, what follows is SSD. A counter is there once something was counted.
"""

import re
from collections.abc import Iterator, Sequence

from tasks.shared.facts.doctor import Report, TierReport
from tasks.shared.health.wanted import Wanted
from tasks.shared.host_checks.findings import Finding, ok, problem, warning

ASKED_TOKENS = 200_000
"""Prompts of so many tokens in all, and no hit: either the tier is broken or of no use here."""

MISSED_RUNS = 4
GB = 1e9
FIGURES = {
    f"vllm_kv_tier_{name}": name
    for name in (
        "bytes",
        "quota_bytes",
        "free_bytes",
        "min_free_bytes",
        "last_prune_timestamp_seconds",
    )
}
"""What is asked of the last prune's figures."""

_SERIES = re.compile(r"^(vllm:\w+)(?:\{(.*)\})? (\S+)$")
_FAILED = {
    "vllm:kv_offload_tiering_promotion_job_failures_total": "loads from SSD failed",
    "vllm:kv_offload_tiering_cascade_job_failures_total": "stores to SSD failed",
    "vllm:kv_offload_tiering_backpressure_blocks_dropped_total": "blocks were not stored: too slow",
}


def judge(report: Report, wanted: Wanted) -> Iterator[Finding]:
    """Does each tier serve, do its transfers succeed, is the SSD tier looked after?"""
    if report.metrics is not None:
        yield from _serving(report.metrics)
    if wanted.limits is not None and report.tier is not None:
        yield from _limits(report.tier, wanted.prune_minutes)


def total(metrics: Sequence[str], name: str, tier: str = "") -> float:
    """A counter over all its labels, or over those series whose label `tier` begins like this."""
    label = f'tier="{tier}'
    found = filter(None, map(_SERIES.match, metrics))
    return sum(float(m[3]) for m in found if m[1] == name and (not tier or label in (m[2] or "")))


def _serving(metrics: Sequence[str]) -> Iterator[Finding]:
    stored = total(metrics, "vllm:kv_offload_store_bytes_total")
    loaded = total(metrics, "vllm:kv_offload_load_bytes_total")
    asked = total(metrics, "vllm:external_prefix_cache_queries_total")
    hits = total(metrics, "vllm:external_prefix_cache_hits_total")
    moved = f"{stored / GB:.1f} GB stored, {loaded / GB:.1f} GB loaded"
    if stored and not loaded and (hits or asked >= ASKED_TOKENS):
        yield problem(
            "KV tiers",
            f"{moved}: {hits:,.0f} of {asked:,.0f} tokens asked for were found, none came back",
            "to be given back what was stored",
            "ask one long prompt again after others have pushed it out of the GPU; if nothing is "
            "loaded then, or prompts never come twice, set kv_ram_gib = 0 and kv_ssd_gb = 0",
        )
    elif stored or loaded:
        yield ok("KV tiers", f"{moved}, {hits:,.0f} of {asked:,.0f} tokens asked for were found")
    found = total(metrics, "vllm:kv_offload_tiering_chunk_hits_total", tier="1")
    read = total(metrics, "vllm:kv_offload_tiering_read_bytes_total", tier="1")
    if found and not read:
        yield problem(
            "SSD tier",
            f"{found:,.0f} chunks were found in it, none was read",
            "to be read from",
            "journalctl -u vllm | grep 'block I/O failed' says why; prune or clear kv_ssd_dir",
        )
    for name, meaning in _FAILED.items():
        if count := total(metrics, name):
            yield warning(
                "SSD tier",
                f"{count:,.0f} {meaning}",
                "none",
                "each is computed again; many of them: look at the disk (dmesg, smartctl)",
            )


def _limits(tier: TierReport, minutes: int) -> Iterator[Finding]:
    if not tier.figures:
        yield ok("SSD tier", "was not looked at yet")
        return
    if lacking := FIGURES.keys() - tier.figures.keys():
        yield problem(
            "SSD tier",
            f"the figures of its last prune lack {', '.join(sorted(lacking))}",
            "all of them",
            "sudo systemctl start vllm-kv-prune.service writes them again",
        )
        return
    figures = {short: tier.figures[name] for name, short in FIGURES.items()}
    ago_min = (tier.now - figures["last_prune_timestamp_seconds"]) / 60
    held = f"{figures['bytes'] / GB:.1f} of {figures['quota_bytes'] / GB:.0f} GB"
    if ago_min > MISSED_RUNS * minutes + 1:
        yield problem(
            "SSD tier",
            f"{held} when it was last pruned, {ago_min:.0f} minutes ago",
            f"a prune every {minutes} minutes",
            "journalctl -u vllm-kv-prune; sudo systemctl restart vllm-kv-prune.timer",
        )
    elif figures["bytes"] > figures["quota_bytes"]:
        yield problem(
            "SSD tier",
            f"{held}: more than its quota",
            "less",
            "journalctl -u vllm-kv-prune says what keeps it from removing blocks",
        )
    elif figures["free_bytes"] < figures["min_free_bytes"]:
        yield problem(
            "SSD tier",
            f"{figures['free_bytes'] / GB:.1f} GB are free on its disk",
            f"{figures['min_free_bytes'] / GB:.0f} GB (kv_min_free_gb)",
            "make room: the tier has no block left to give",
        )
    else:
        yield ok("SSD tier", f"{held}, last pruned {max(ago_min, 0):.0f} minutes ago")
