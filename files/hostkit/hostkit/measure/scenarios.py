"""What users notice and a stream of equal requests does not show: each a few requests by hand.

A short question behind a long prompt; a document that was pushed out of the GPU and is asked for
again. Figures are medians, in milliseconds to the first token.
"""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from hostkit.host.process import Failure
from hostkit.measure import benchmark, streaming
from hostkit.serving import server

TRIALS = 3
LATE_S = 0.3
"""When the short question comes, after the long prompt."""
SHORT_TOKENS = 256
DOCUMENTS = 4
ANSWER = 8
SETTLE_S = 30.0

Ratios = Callable[[str], tuple[float, int]]
Figures = dict[str, float]


@dataclass(frozen=True)
class Asked:
    """What a scenario works with: the prompts' tokens, and those that fill the GPU's KV pool."""

    found: server.Server
    salt: str
    ratios: Ratios
    tokens: int
    pool: int = 0

    def text(self, index: int | str, tokens: int) -> str:
        run = benchmark.Run("", "real", (tokens,), ANSWER, 1)
        return str(benchmark.texts(run, f"{self.salt}-{index}", self.ratios)[0]["prompt"])


def late_short(asked: Asked) -> dict[str, Any]:
    """A short question alone, and one that comes while a long prompt is being computed."""
    kept: dict[str, list[float]] = {"alone": [], "late": [], "long": []}
    for trial in range(TRIALS):
        kept["alone"].append(_first(asked, asked.text(f"alone{trial}", SHORT_TOKENS)))
        late_text = asked.text(f"late{trial}", SHORT_TOKENS)
        long_text = asked.text(f"long{trial}", asked.tokens)
        with ThreadPoolExecutor(1) as pool:
            began = time.monotonic()
            long = pool.submit(streaming.ask, asked.found, long_text, ANSWER)
            time.sleep(LATE_S)
            late_began = time.monotonic()
            late = _first(asked, late_text)
            long_first = long.result().first_s
        if began + long_first > late_began:
            kept["late"].append(late)
            kept["long"].append(long_first * 1000)
    note = ""
    if not kept["late"]:
        note = f"a prompt of {asked.tokens:,} tokens is computed before a question can be late"
    return _row(kept, "first_token_ms", requests=TRIALS * 3, note=note)


@dataclass
class Sources:
    """Milliseconds to the first token of documents, by where their KV came from."""

    found: dict[str, list[float]] = field(default_factory=dict)

    def add(self, source: str, milliseconds: float) -> None:
        self.found.setdefault(source, []).append(milliseconds)


def documents(asked: Asked) -> list[str]:
    """As many as are asked about; the longest that fit."""
    return [asked.text(f"document{number}", asked.tokens) for number in range(DOCUMENTS)]


def evicted(asked: Asked, texts: list[str], offloads: bool) -> Sources:
    """Ask for each document new and once more; where KV is offloaded, again when it was evicted."""
    sources = Sources()
    for text in texts:
        sources.add("computed", _first(asked, text))
        sources.add("gpu", _first(asked, text))
    if offloads:
        settle(asked.found)
        _push_out(asked)
        settle(asked.found)
        read_again(asked, texts, sources, "evicted_computed")
    return sources


def read_again(asked: Asked, texts: list[str], sources: Sources, otherwise: str) -> None:
    """Ask for documents that the GPU has no more; the last one first, as RAM gives way, too."""
    for text in reversed(texts):
        hits, read = _offloaded(asked.found)
        milliseconds = _first(asked, text)
        hits_now, read_now = _offloaded(asked.found)
        source = otherwise
        if hits_now > hits:
            source = "ssd" if read_now > read else "ram"
        sources.add(source, milliseconds)


def row_of(sources: Sources, requests: int) -> dict[str, Any]:
    """The sources as a row of the result."""
    return _row(sources.found, "first_token_ms", requests, note="")


def settle(found: server.Server) -> None:
    """Wait until nothing more is written to the tiers."""
    last, ends = -1.0, time.monotonic() + SETTLE_S
    while time.monotonic() < ends:
        text = server.metrics(found)
        written = server.total(text, "vllm:kv_offload_tiering_write_bytes_total") or 0.0
        if written == last:
            return
        last = written
        time.sleep(1.5)


def _push_out(asked: Asked) -> None:
    """Fill the GPU's KV pool with other texts."""
    if not asked.pool:
        raise Failure("the size of the KV pool is not on record: restart the server once")
    count = asked.pool // asked.tokens + 1
    texts = (asked.text(f"filler{number}", asked.tokens) for number in range(count))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda text: streaming.ask(asked.found, text, 1), texts))


def _offloaded(found: server.Server) -> tuple[float, float]:
    """Tokens that came from outside of the GPU, and bytes that came from the SSD."""
    text = server.metrics(found)
    hits = server.total(text, "vllm:external_prefix_cache_hits_total") or 0.0
    return hits, server.total(text, "vllm:kv_offload_tiering_read_bytes_total") or 0.0


def _first(asked: Asked, text: str) -> float:
    return streaming.ask(asked.found, text, ANSWER).first_s * 1000


def _row(kept: dict[str, list[float]], unit: str, requests: int, note: str) -> dict[str, Any]:
    return {
        "figures": {
            f"{name}_{unit}": round(statistics.median(values), 2)
            for name, values in kept.items()
            if values
        },
        "completed": requests,
        "failed": 0,
        "error": "",
        "note": note,
    }
