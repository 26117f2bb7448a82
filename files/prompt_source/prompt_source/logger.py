"""The stat logger that vLLM loads (entry point group vllm.stat_logger_plugins).

It is for looking on: whatever goes wrong in here is said in one line of the server's log, once, and
the server goes on without these metrics.
"""

import functools
import os
from typing import Any, NamedTuple

from prometheus_client import Counter, Histogram
from vllm.logger import init_logger
from vllm.v1.metrics.loggers import AggregateStatLoggerBase
from vllm.v1.metrics.stats import IterationStats

from prompt_source import first_tokens
from prompt_source.sources import SOURCES, FirstToken

# Below vllm's own name a logger writes as the server's others do.
logger = init_logger("vllm.prompt_source")

SWITCH = "PROMPT_SOURCE_METRICS"
"""The environment variable that turns it off: 0."""

_BUCKETS = (
    *(0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1, 1.5, 2, 3, 4, 5, 7.5, 10, 15, 20, 30, 45, 60, 90, 120, 300, 600),
)
_LABELS = ("model_name", "engine", "source")


class Metrics(NamedTuple):
    """On the default registry, and so on vLLM's /metrics, also added up over API servers.

    Not "vllm:…": vLLM removes what begins so when it makes its own.
    """

    latency: Histogram
    prefill: Counter
    computed: Counter


@functools.cache
def _metrics() -> Metrics:
    """Made once in a process: a registry takes a name only once."""
    return Metrics(
        Histogram(
            "vllm_prompt_first_token_seconds",
            "Time to first token by where most of the prompt's KV came from.",
            _LABELS,
            buckets=_BUCKETS,
        ),
        Counter(
            "vllm_prompt_prefill_seconds",
            "Time from when a request was first scheduled to its first token, added up.",
            _LABELS,
        ),
        Counter(
            "vllm_prompt_computed_tokens",
            "Prompt tokens that were computed, not taken from a cache.",
            _LABELS,
        ),
    )


class PromptSourceLogger(AggregateStatLoggerBase):
    """Observes each first token by its source."""

    def __init__(self, vllm_config: Any = None, engine_indexes: Any = (0,), **_: Any) -> None:
        self._metrics: Metrics | None = None
        if os.environ.get(SWITCH) == "0":
            return
        try:
            self._model = str(vllm_config.model_config.served_model_name)
            metrics = _metrics()
            for engine in engine_indexes or (0,):
                for source in SOURCES:
                    for metric in metrics:
                        metric.labels(self._model, str(engine), source)
            first_tokens.follow(IterationStats)
        except Exception as error:
            self._give_up(error)
        else:
            self._metrics = metrics
            logger.info("Prompt sources: %s on /metrics", "vllm_prompt_first_token_seconds")

    def record(
        self,
        scheduler_stats: Any = None,
        iteration_stats: Any = None,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
        **_: Any,
    ) -> None:
        """One step of one engine."""
        if self._metrics is None:
            return
        try:
            for first in first_tokens.of(iteration_stats):
                self._observe(self._metrics, first, (self._model, str(engine_idx), first.source))
        except Exception as error:
            self._give_up(error)

    def log_engine_initialized(self) -> None:
        """Nothing to say that /metrics does not."""

    def _observe(self, metrics: Metrics, first: FirstToken, labels: tuple[str, str, str]) -> None:
        metrics.latency.labels(*labels).observe(first.latency_s)
        metrics.prefill.labels(*labels).inc(first.prefill_s)
        metrics.computed.labels(*labels).inc(first.computed)

    def _give_up(self, error: Exception) -> None:
        self._metrics = None
        logger.warning("Prompt sources: no metrics of them: %s: %s", type(error).__name__, error)


# A method that a later vLLM wants besides must not keep the server from starting.
PromptSourceLogger.__abstractmethods__ = frozenset()
