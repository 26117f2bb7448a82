"""A history of traffic, made here and counted here, for a real Prometheus to be asked about.

Requests come at random times; a server that is restarted counts them as vLLM does, and a scraper
writes down the counters as Prometheus does. What a report must say is counted from the list of
requests, never from the counters.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

START = 1795600800.0  # a Wednesday, 10:00 UTC
END = START + 24 * 3600
SCRAPE_S = 60
RESTARTS = (START + 5 * 3600, START + 17 * 3600 + 1800)
DOWN_S = 120
BLIND = (START + 9 * 3600, START + 10 * 3600)
"""Prometheus itself did not run."""
KEEP_OFF_S = 100
"""No request so near to where the counters are cut: a test could not say on which side it is."""

BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
SOURCES = ("computed", "gpu_cache", "offloaded")
BY_SOURCE = ("local_compute", "local_cache_hit", "external_kv_transfer")
LABELS = 'job="vllm",instance="127.0.0.1:8000",engine="0",model_name="m"'


@dataclass(frozen=True)
class Request:
    at: float
    tokens: tuple[int, int, int]
    """Computed, from the GPU cache, offloaded."""
    generated: int
    first_token_s: float

    @property
    def source(self) -> str:
        return SOURCES[self.tokens.index(max(self.tokens))]


def requests(number: int = 200, seed: int = 0) -> list[Request]:
    """Requests of a day, in order."""
    draw = random.Random(seed)
    edges = [START, END, *BLIND, *RESTARTS]
    # Those that nobody saw the server without: they are in the first sample of its life.
    first = [at + DOWN_S + 2 for at in RESTARTS]
    found: list[Request] = []
    while len(found) < number:
        at = first.pop() if first else draw.uniform(START, END)
        is_down = any(edge < at < edge + DOWN_S for edge in RESTARTS)
        is_cut = any(abs(at - edge) < KEEP_OFF_S for edge in edges)
        if is_down or is_cut or BLIND[0] < at < BLIND[1]:
            continue
        parts = [draw.randrange(1, 500), 0, 0]
        parts[draw.randrange(3)] += draw.randrange(1000, 3000)
        computed, gpu_cache, offloaded = parts
        found.append(
            Request(
                at,
                (computed, gpu_cache, offloaded),
                draw.randrange(1, 300),
                0.05 + computed / 1000 + draw.random() / 10,
            )
        )
    return sorted(found, key=lambda each: each.at)


@dataclass
class Server:
    """The counters of one life of the server."""

    began: float
    values: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for source in SOURCES:
            for name in ("first_token_seconds_count", "first_token_seconds_sum"):
                self.add(f"vllm_prompt_{name}", 0, f'source="{source}"')
            for bound in ("0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "+Inf"):
                labels = f'source="{source}",le="{bound}"'
                self.add("vllm_prompt_first_token_seconds_bucket", 0, labels)
        for name in BY_SOURCE:
            self.add("vllm:prompt_tokens_by_source_total", 0, f'source="{name}"')
        for reason in ("stop", "length", "abort"):
            self.add("vllm:request_success_total", 0, f'finished_reason="{reason}"')
        self.add("vllm:generation_tokens_total", 0)
        self.add("vllm:kv_cache_usage_perc", 0)

    def add(self, name: str, value: float, labels: str = "") -> None:
        key = f"{name}{{{','.join(filter(None, (LABELS, labels)))}}}"
        self.values[key] = self.values.get(key, 0.0) + value

    def serve(self, request: Request) -> None:
        source = f'source="{request.source}"'
        self.add("vllm_prompt_first_token_seconds_count", 1, source)
        self.add("vllm_prompt_first_token_seconds_sum", request.first_token_s, source)
        for bound in (*BOUNDS, float("inf")):
            if request.first_token_s <= bound:
                text = "+Inf" if bound == float("inf") else str(bound)
                labels = f'{source},le="{text}"'
                self.add("vllm_prompt_first_token_seconds_bucket", 1, labels)
        for name, tokens in zip(BY_SOURCE, request.tokens, strict=True):
            self.add("vllm:prompt_tokens_by_source_total", tokens, f'source="{name}"')
        self.add("vllm:request_success_total", 1, 'finished_reason="stop"')
        self.add("vllm:generation_tokens_total", request.generated)


def openmetrics(served: list[Request]) -> str:
    """The history as promtool reads it."""
    rows: dict[str, list[str]] = {}
    for at, values in _scrapes(served):
        for name, value in values.items():
            rows.setdefault(name, []).append(f"{name} {value} {at}")
    families: dict[str, list[str]] = {}
    for name, lines in rows.items():
        families.setdefault(name.partition("{")[0], []).extend(lines)
    text = [line for name, lines in families.items() for line in (f"# TYPE {name} unknown", *lines)]
    return "\n".join([*text, "# EOF"]) + "\n"


def _scrapes(served: list[Request]) -> Iterator[tuple[float, dict[str, float]]]:
    server, todo = Server(START - 3600), list(served)
    restarts = list(RESTARTS)
    at = START + 7  # not on the full minute
    while at <= END:
        if restarts and at >= restarts[0]:
            server = Server(restarts.pop(0) + DOWN_S)
        while todo and todo[0].at <= at:
            server.serve(todo.pop(0))
        is_up = at >= server.began
        own = 'job="vllm",instance="127.0.0.1:8000"'
        values = {f"up{{{own}}}": float(is_up)}
        if is_up:
            values |= {f"process_start_time_seconds{{{own}}}": server.began, **server.values}
        if not BLIND[0] < at < BLIND[1]:
            yield at, values
        at += SCRAPE_S
