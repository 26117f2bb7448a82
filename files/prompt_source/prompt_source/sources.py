"""Where a prompt came from: decisions without vLLM."""

from typing import NamedTuple

COMPUTED = "computed"
GPU_CACHE = "gpu_cache"
OFFLOADED = "offloaded"
SOURCES = (COMPUTED, GPU_CACHE, OFFLOADED)
"""Every value of the label, so that a histogram's series are bounded and there from the start."""


class FirstToken(NamedTuple):
    """A request's first token: what it took, and where the prompt's KV came from, in tokens.

    `latency_s` is from the request's arrival, `prefill_s` from when it was first scheduled.
    """

    latency_s: float
    prefill_s: float
    computed: int
    gpu_cache: int
    offloaded: int

    @property
    def source(self) -> str:
        """Where most of the prompt came from, the slower one of two that gave as much.

        Most of it, because a system prompt that all requests share would make each a cached one.
        """
        if self.computed >= max(self.gpu_cache, self.offloaded):
            return COMPUTED
        return OFFLOADED if self.offloaded >= self.gpu_cache else GPU_CACHE
