"""What the server did in some intervals of time, from the host's Prometheus, as one line of JSON.

Read by tasks/shared/traffic/; nothing is judged here.
"""

import json
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any

from hostkit.host.process import Failure
from hostkit.metrics import lives
from hostkit.metrics.prometheus import Prometheus, Series

_VLLM = 'job="vllm"'
_COUNTERS = f'{{{_VLLM},__name__=~"vllm.+_(total|count|sum|bucket)"}}'
_BEGAN = f"process_start_time_seconds{{{_VLLM}}}"
_UP = f"up{{{_VLLM}}}"
# A sample of the life that goes on when an interval begins is not older than this.
_BEFORE_S = 300

_GAUGES = {
    "kv_usage": f"vllm:kv_cache_usage_perc{{{_VLLM}}}",
    "running": f"vllm:num_requests_running{{{_VLLM}}}",
    "waiting": f"vllm:num_requests_waiting{{{_VLLM}}}",
    "tier_bytes": "vllm_kv_tier_bytes",
    "tier_quota_bytes": "vllm_kv_tier_quota_bytes",
    "removed_blocks": "vllm_kv_tier_removed_blocks_total",
    "removed_bytes": "vllm_kv_tier_removed_bytes_total",
}
"""What has a value at any time, or goes on counting over restarts: removed_…"""

_FIGURES = ("min", "avg", "max", "last", "count")

_TOKENS = "vllm:prompt_tokens_by_source_total"
_TTFT = f"sum by (le) (increase(vllm:time_to_first_token_seconds_bucket{{{_VLLM}}}[RANGE]))"
_COURSES = {
    "requests": f"sum(increase(vllm:request_success_total{{{_VLLM}}}[RANGE]))",
    "computed": f'sum(increase({_TOKENS}{{{_VLLM},source="local_compute"}}[RANGE]))',
    "gpu_cache": f'sum(increase({_TOKENS}{{{_VLLM},source="local_cache_hit"}}[RANGE]))',
    "offloaded": f'sum(increase({_TOKENS}{{{_VLLM},source="external_kv_transfer"}}[RANGE]))',
    "generated": f"sum(increase(vllm:generation_tokens_total{{{_VLLM}}}[RANGE]))",
    "ttft_p50": f"histogram_quantile(0.5, {_TTFT})",
    "ttft_p95": f"histogram_quantile(0.95, {_TTFT})",
    "kv_usage": f"max(max_over_time({_GAUGES['kv_usage']}[RANGE]))",
    "running": f"max(max_over_time({_GAUGES['running']}[RANGE]))",
    "waiting": f"max(max_over_time({_GAUGES['waiting']}[RANGE]))",
    "tier_bytes": "max(last_over_time(vllm_kv_tier_bytes[RANGE]))",
    "tier_quota_bytes": "max(last_over_time(vllm_kv_tier_quota_bytes[RANGE]))",
}
"""One series each. For the pictures, where PromQL's guesses at the edges of a step do no harm."""


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("traffic", help="what was served in some time, as JSON")
    parser.add_argument("port", type=int, help="Prometheus' port on 127.0.0.1")
    parser.add_argument("intervals", type=_intervals, help="[[from, until], …] in Unix time")
    parser.add_argument("step", type=int, help="seconds between the points of a course")
    parser.set_defaults(run=_command)


def _intervals(text: str) -> list[tuple[float, float]]:
    found = [(float(start), float(end)) for start, end in json.loads(text)]
    if not found or any(start >= end for start, end in found):
        raise ValueError(text)
    return found


def _command(args: Namespace) -> int:
    print(json.dumps(traffic(Prometheus(args.port), args.intervals, args.step)))
    return 0


def traffic(
    prometheus: Prometheus, intervals: Sequence[tuple[float, float]], step: int
) -> dict[str, Any]:
    """Everything about these intervals, which are in order and do not overlap."""
    found = [_interval(prometheus, start, end) for start, end in intervals]
    first, last = intervals[0][0], intervals[-1][1]
    return {
        "now": time.time(),
        "intervals": found,
        "courses": dict(_courses(prometheus, first, last, step)),
    }


def _interval(prometheus: Prometheus, start: float, end: float) -> dict[str, Any]:
    span = f"[{int(end - start + _BEFORE_S)}s]"
    up = _one(prometheus.at(end, _UP + span), _UP)
    began = _one(prometheus.at(end, _BEGAN + span), _BEGAN)
    all_lives = lives.lives(began)
    looked = [at for at, _ in up]
    inside = [(at, value) for at, value in up if at > start]
    if not began and any(value for _, value in inside):
        raise Failure(
            "the server has no process_start_time_seconds on its /metrics, as with several API "
            "servers (api-server-count): what it counted cannot be told from what one before it did"
        )
    return {
        "from": start,
        "until": end,
        "first_sample": min((at for at, _ in inside), default=None),
        "watched_s": lives.watched_s(looked, start, end),
        "up_s": lives.watched_s([at for at, value in up if value], start, end),
        "starts": lives.starts(all_lives, start, end),
        "counted": _counted(prometheus, lives.counts(all_lives, looked, start, end)),
        "gauges": dict(_gauges(prometheus, start, end)),
    }


def _one(found: Sequence[Series], name: str) -> list[tuple[float, float]]:
    """The samples of what there may be once only."""
    if len(found) > 1:
        raise Failure(f"Prometheus has {len(found)} series {name}: one server a host is expected")
    return found[0].samples if found else []


def _counted(prometheus: Prometheus, counts: Sequence[lives.Count]) -> list[dict[str, Any]]:
    total: dict[tuple[tuple[str, str], ...], float] = {}
    for count in counts:
        for sign, at in ((1, count.end), (-1, count.base)):
            for series in prometheus.at(at, _COUNTERS) if at is not None else ():
                key = tuple(sorted(series.labels.items()))
                total[key] = total.get(key, 0.0) + sign * series.samples[-1][1]
    return [
        {
            "name": labels.pop("__name__"),
            "labels": {k: v for k, v in labels.items() if k not in ("instance", "job")},
            "value": value,
        }
        for labels, value in ((dict(key), value) for key, value in total.items())
    ]


def _gauges(
    prometheus: Prometheus, start: float, end: float
) -> Iterator[tuple[str, dict[str, float]]]:
    """The figures of each gauge that has a value in the interval."""
    for name, metric in _GAUGES.items():
        found = {}
        for figure in _FIGURES:
            series = prometheus.at(end, f"{figure}_over_time({metric}[{int(end - start)}s])")
            if series:
                found[figure] = max(each.samples[-1][1] for each in series)
        if found:
            yield name, found


def _courses(
    prometheus: Prometheus, start: float, end: float, step: int
) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    for name, query in _COURSES.items():
        # `increase` needs two samples in its range.
        found = prometheus.over(start, end, step, query.replace("RANGE", f"{max(step, 60)}s"))
        # NaN, a quantile of nothing, is no JSON.
        yield name, [point for each in found for point in each.samples if point[1] == point[1]]
