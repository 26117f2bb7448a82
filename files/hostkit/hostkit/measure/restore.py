"""Has the server give up KV that it holds in GPU and RAM, and tells what came back from where.

By its own metrics: which tier a request is served from is the server's decision alone.
"""

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hostkit.generation import generations
from hostkit.host import units
from hostkit.host.jobs import progress
from hostkit.measure import questions
from hostkit.serving import goodstart, server

AT_ONCE = 4
FILLER_WORDS = 8000
TOKENS_PER_WORD = 1.2
"""What the filler's plain words take at least, so that the pool is surely full."""
LIMIT_S = 900.0

_RAM = re.compile(r'"?cpu_bytes_to_use"?: (\d+)')


@dataclass(frozen=True)
class Tiers:
    """Where a generation's server puts KV that does not fit into the GPU."""

    ram_bytes: int
    ssd: bool


@dataclass(frozen=True)
class Counters:
    """What a server has done since its start: tokens from below the GPU, bytes to RAM, from SSD."""

    restored_tokens: float
    stored_bytes: float
    ssd_bytes: float


def tiers(number: int) -> Tiers | None:
    """The tiers of a generation; None when it offloads nothing."""
    text = (generations.folder(number) / "serve.yaml").read_text("utf-8")
    ram = _RAM.search(text)
    return Tiers(int(ram[1]), generations.has_ssd_tier(number)) if ram else None


def counters(found: server.Server) -> Counters:
    """Read them now; one that the server does not have is 0."""
    metrics = server.metrics(found)
    names = (
        "vllm:external_prefix_cache_hits_total",
        "vllm:kv_offload_store_bytes_total",
        "vllm:kv_offload_tiering_read_bytes_total",
    )
    return Counters(*(server.total(metrics, name) or 0.0 for name in names))


def pool_tokens(number: int) -> int:
    """The size of the running server's KV pool, by the log of its start; 0 when nothing says it.

    What is on record of its generation is an earlier start's, and of a new one there is nothing.
    """
    invocation = units.show("InvocationID")["InvocationID"]
    started = goodstart.of(units.journal(invocation), 0)
    recorded = goodstart.of_generation(number)
    return started.kv_tokens or (recorded.kv_tokens if recorded else None) or 0


def push_out(found: server.Server, below: Tiers, max_model_len: int) -> None:
    """Fill the GPU's KV pool with other texts and, where there is an SSD tier, RAM as well.

    Ends early, and says so, when that takes longer than LIMIT_S.
    """
    pool = pool_tokens(found.generation)
    words = min(FILLER_WORDS, int(max_model_len / 2))
    stored = counters(found).stored_bytes
    progress("pushing it out of the GPU" + (" and of RAM" if below.ssd else ""))
    # Text that the tiers know from another time would come from there and fill nothing.
    salt = os.urandom(16).hex()

    def ask(number: int) -> None:
        server.complete(found, questions.filler(words, number), 1, cache_salt=salt)

    ends, texts = time.monotonic() + LIMIT_S, 0
    with ThreadPoolExecutor(AT_ONCE) as pool_of_clients:
        while time.monotonic() < ends:
            list(pool_of_clients.map(ask, range(texts, texts + AT_ONCE)))
            texts += AT_ONCE
            grown = counters(found).stored_bytes - stored
            # A server that counts nothing of what goes to RAM never fills it.
            ram_is_full = grown == 0 or grown >= below.ram_bytes
            if texts * words * TOKENS_PER_WORD >= pool and (ram_is_full or not below.ssd):
                progress(f"pushed out with {texts} other texts")
                return
    progress(f"warning: {texts} other texts in {LIMIT_S:.0f} s have not filled it")
