"""What was counted, as the figures of a report: pure arithmetic on counters and gauges."""

from dataclasses import dataclass
from functools import cached_property

from tasks.shared.facts.traffic import Gauge, Stretch, Traffic
from tasks.shared.traffic.counts import Counts
from tasks.shared.traffic.histograms import Histogram

DAY_S = 86400
SOURCES = {"computed": "computed", "gpu_cache": "GPU cache", "offloaded": "offloaded"}
"""Where a prompt comes from, as the stat logger of files/prompt_source labels it."""

RAM, SSD = "0:primary", "1:fs"
"""vLLM's labels of the tiers."""

_BY_SOURCE = "vllm:prompt_tokens_by_source_total"
# A growth that was looked at for less tells nothing about days.
_SHORTEST_GROWTH_S = 3600


@dataclass(frozen=True)
class Tokens:
    """Prompt tokens by where their KV came from."""

    computed: float
    gpu_cache: float
    offloaded: float

    @property
    def total(self) -> float:
        return self.computed + self.gpu_cache + self.offloaded


@dataclass(frozen=True)
class Cost:
    """What computing a prompt token took; `of_all`: measured on all prompts, cached ones too."""

    s_per_token: float
    of_all: bool = False


@dataclass(frozen=True)
class Tier:
    """A tier's lookups in chunks, and what went through it; None: the server does not tell."""

    queries: float | None
    hits: float | None
    read_bytes: float | None
    read_s: float | None
    written_bytes: float | None
    written_s: float | None


@dataclass(frozen=True)
class Growth:
    """The SSD tier: its size at the end, and bytes per day; None: watched for too short a time."""

    size: float
    quota: float
    per_day: float | None

    @property
    def days_left(self) -> float | None:
        """Until the quota at this pace; None where it does not grow, or where that is not known."""
        if not self.per_day or self.per_day <= 0:
            return None
        return max(self.quota - self.size, 0.0) / self.per_day


class Figures:
    """The figures of what a host's Prometheus told. What is unknown is None."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self.counts = Counts(each for part in traffic.intervals for each in part.counted)

    @property
    def stretches(self) -> list[Stretch]:
        return self.traffic.intervals

    @property
    def recorded_s(self) -> float:
        """The time asked for, from where Prometheus' records begin."""
        begins = self.first_sample or 0.0
        return sum(max(each.until - max(each.start, begins), 0.0) for each in self.stretches)

    @property
    def watched_s(self) -> float:
        return sum(each.watched_s for each in self.stretches)

    @property
    def up_s(self) -> float:
        return sum(each.up_s for each in self.stretches)

    @property
    def starts(self) -> int:
        return sum(each.starts for each in self.stretches)

    @property
    def first_sample(self) -> float | None:
        found = [each.first_sample for each in self.stretches if each.first_sample is not None]
        return min(found, default=None)

    @cached_property
    def requests(self) -> dict[str, float]:
        """Requests that ended, by how; only what happened."""
        found = self.counts.by("vllm:request_success_total", "finished_reason")
        return {reason: count for reason, count in found.items() if count}

    @property
    def ended(self) -> float:
        return sum(self.requests.values())

    @cached_property
    def tokens(self) -> Tokens | None:
        found = self.counts.by(_BY_SOURCE, "source")
        if not found:
            return None
        names = ("local_compute", "local_cache_hit", "external_kv_transfer")
        return Tokens(*(found.get(name, 0.0) for name in names))

    def first_token(self, source: str | None = None) -> Histogram | None:
        """Seconds to the first token: of all requests as vLLM measures, or of those of a source."""
        if source is None:
            return self.counts.histogram("vllm:time_to_first_token_seconds")
        return self.counts.histogram("vllm_prompt_first_token_seconds", source=source)

    @property
    def between_tokens(self) -> Histogram | None:
        return self.counts.histogram("vllm:inter_token_latency_seconds")

    @cached_property
    def cost(self) -> Cost | None:
        """Prefill seconds per computed token; None when no prompt was computed."""
        for seconds, tokens, of_all in (
            (
                self.counts.total("vllm_prompt_prefill_seconds_total", source="computed"),
                self.counts.total("vllm_prompt_computed_tokens_total", source="computed"),
                False,
            ),
            (
                self.counts.total("vllm:request_prefill_time_seconds_sum"),
                self.counts.total(_BY_SOURCE, source="local_compute"),
                True,
            ),
        ):
            if seconds is not None:
                return Cost(seconds / tokens, of_all) if tokens and seconds else None
        return None

    def saved_s(self, tokens: float) -> float | None:
        """Prefill seconds that these tokens would have taken, had they been computed."""
        return tokens * self.cost.s_per_token if self.cost else None

    def tier(self, label: str) -> Tier | None:
        """RAM or SSD; None where there is none."""
        total = self.counts.total
        queries = total("vllm:kv_offload_tiering_chunk_queries_total", tier=label)
        hits = total("vllm:kv_offload_tiering_chunk_hits_total", tier=label)
        if label == RAM:
            flows = [
                total(f"vllm:kv_offload_{name}_total")
                for name in ("load_bytes", "load_time", "store_bytes", "store_time")
            ]
        else:
            flows = [
                total(f"vllm:kv_offload_tiering_{name}_total", tier=label)
                for name in ("read_bytes", "read_time", "write_bytes", "write_time")
            ]
        found = (queries, hits, *flows)
        return None if all(each is None for each in found) else Tier(*found)

    @property
    def loading_s(self) -> float:
        """Seconds that reading the tiers took: SSD to RAM and RAM to GPU."""
        tiers = (self.tier(RAM), self.tier(SSD))
        return sum(each.read_s or 0.0 for each in tiers if each)

    @cached_property
    def growth(self) -> Growth | None:
        """The SSD tier over the whole time, from the first to the last look at it."""
        courses = self.traffic.courses
        sizes, quotas = courses.get("tier_bytes", []), courses.get("tier_quota_bytes", [])
        if not sizes or not quotas:
            return None
        (began, first), (ended, last) = sizes[0], sizes[-1]
        days = (ended - began) / DAY_S
        is_long = ended - began >= _SHORTEST_GROWTH_S
        return Growth(last, quotas[-1][1], (last - first) / days if is_long else None)

    def rise(self, name: str) -> float | None:
        """By how much a gauge that only rises did so: what was pruned."""
        found = [each.gauges[name] for each in self.stretches if name in each.gauges]
        return sum(each.max - each.min for each in found) if found else None

    def gauge(self, name: str) -> Gauge | None:
        """A gauge over all intervals, its average weighted by the number of samples."""
        found = [each.gauges[name] for each in self.stretches if name in each.gauges]
        if not found:
            return None
        count = sum(each.count for each in found)
        return Gauge(
            min=min(each.min for each in found),
            avg=sum(each.avg * each.count for each in found) / count,
            max=max(each.max for each in found),
            last=found[-1].last,
            count=count,
        )
