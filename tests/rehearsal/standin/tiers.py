"""Where the stand-in keeps what it was asked: GPU, RAM and SSD, a whole prompt at a time.

It becomes `vllm/standin_tiers.py` of a wheel. GPU and RAM drop what was used longest ago; the SSD
keeps all, until the server ends.
"""

import math
import threading

BYTES_PER_TOKEN = 16384
TOKENS_PER_WORD = 1.3


class Tiers:
    """A pool of `gpu_tokens`; below it RAM, when it has bytes, and SSD."""

    def __init__(self, gpu_tokens: int, ram_bytes: int, ssd: bool) -> None:
        self.sizes = {"gpu": gpu_tokens, "ram": ram_bytes // BYTES_PER_TOKEN}
        self.held: dict[str, dict[str, int]] = {"gpu": {}, "ram": {}, "ssd": {}}
        self.ssd = ssd
        self.hits = self.stored = self.read = 0
        self.lock = threading.Lock()

    def take(self, prompt: str) -> bool:
        """Use a prompt's KV, computed where no tier has it; True when it is from below the GPU."""
        tokens = math.ceil(len(prompt.split()) * TOKENS_PER_WORD)
        with self.lock:
            from_ram, from_ssd = (prompt in self.held[tier] for tier in ("ram", "ssd"))
            below = prompt not in self.held["gpu"] and (from_ram or from_ssd)
            if below:
                self.hits += tokens
                self.read += 0 if from_ram else tokens * BYTES_PER_TOKEN
            elif self.sizes["ram"] and not from_ram and not from_ssd:
                self.stored += tokens * BYTES_PER_TOKEN
            for tier, size in self.sizes.items():
                self._hold(tier, prompt, tokens, size)
            if self.ssd:
                self.held["ssd"][prompt] = tokens
        return below

    def _hold(self, tier: str, prompt: str, tokens: int, size: int) -> None:
        held = self.held[tier]
        held.pop(prompt, None)
        if size:
            held[prompt] = tokens
        while sum(held.values()) > size:
            held.pop(next(iter(held)))

    def metrics(self) -> dict[str, int]:
        """The counters that vLLM has for them."""
        return {
            "external_prefix_cache_hits_total": self.hits,
            "kv_offload_store_bytes_total": self.stored,
            "kv_offload_tiering_read_bytes_total": self.read,
        }
