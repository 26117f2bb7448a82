"""What the scenarios ask, and how an answer's source is told, with a server that is imitated."""

import pytest

from hostkit.measure import loadsteps, scenarios, streaming
from hostkit.serving import server

FOUND = server.Server(1, 3, "http://127.0.0.1:8000", "model", "0.31.0")
POOL, TOKENS = 50_000, 16_000


class Tiers:
    """A server with a GPU pool, a RAM tier of so many texts, and an SSD; answers take no time."""

    def __init__(self, monkeypatch, ram, offloads=True):
        self.gpu, self.ram, self.ssd = [], [], []
        self.room, self.offloads = ram, offloads
        self.hits = self.read = 0
        self.asked = []
        monkeypatch.setattr(streaming, "ask", self.ask)
        monkeypatch.setattr(server, "metrics", lambda _found: self.metrics())
        monkeypatch.setattr("time.sleep", lambda _s: None)

    def ask(self, _found, prompt, tokens, timeout_s=600):
        self.asked.append(prompt)
        seconds = 10.0
        if prompt in self.gpu:
            seconds = 0.2
        elif self.offloads and prompt in self.ram:
            seconds, self.hits = 1.0, self.hits + TOKENS
        elif self.offloads and prompt in self.ssd:
            seconds, self.hits, self.read = 2.0, self.hits + TOKENS, self.read + 100
        self.gpu = [*(each for each in self.gpu if each != prompt), prompt][-(POOL // TOKENS) :]
        self.ram = [*(each for each in self.ram if each != prompt), prompt][-self.room :]
        self.ssd.append(prompt)
        return streaming.Reply(seconds, seconds)

    def metrics(self):
        return (
            f"vllm:external_prefix_cache_hits_total{{}} {self.hits}\n"
            f"vllm:kv_offload_tiering_read_bytes_total{{}} {self.read}\n"
            f"vllm:kv_offload_tiering_write_bytes_total{{}} 7\n"
        )


def asked():
    return scenarios.Asked(FOUND, "salt", lambda _genre: (1.5, 40), TOKENS, POOL)


def evicted(offloads):
    told = asked()
    sources = scenarios.evicted(told, scenarios.documents(told), offloads)
    return {source: len(values) for source, values in sources.found.items()}, sources


def test_a_document_is_told_apart_by_the_tier_that_gave_it(monkeypatch):
    Tiers(monkeypatch, ram=6)
    counted, sources = evicted(offloads=True)
    # Four fillers leave room for the last two of four documents in RAM.
    assert counted == {"computed": 4, "gpu": 4, "ram": 2, "ssd": 2}
    assert scenarios.row_of(sources, 12)["figures"] == {
        "computed_first_token_ms": 10_000,
        "gpu_first_token_ms": 200,
        "ram_first_token_ms": 1000,
        "ssd_first_token_ms": 2000,
    }


def test_a_tier_that_serves_nothing_shows(monkeypatch):
    Tiers(monkeypatch, ram=6, offloads=False)
    assert evicted(offloads=True)[0] == {"computed": 4, "gpu": 4, "evicted_computed": 4}


def test_without_offloading_nothing_is_pushed_out(monkeypatch):
    tiers = Tiers(monkeypatch, ram=6)
    assert evicted(offloads=False)[0] == {"computed": 4, "gpu": 4}
    assert len(tiers.asked) == 8


def test_a_long_prompt_that_is_ready_before_the_late_question_gives_no_figure(monkeypatch):
    monkeypatch.setattr(streaming, "ask", lambda *_args: streaming.Reply(0.01, 0.02))
    monkeypatch.setattr(scenarios, "LATE_S", 0.05)
    row = scenarios.late_short(asked())
    assert row["figures"] == {"alone_first_token_ms": 10}
    assert "is computed before a question can be late" in row["note"]


def test_a_late_question_is_measured_while_the_long_prompt_is_computed(monkeypatch):
    monkeypatch.setattr(scenarios, "LATE_S", 0.0)
    monkeypatch.setattr(streaming, "ask", lambda *_args: streaming.Reply(5.0, 6.0))
    row = scenarios.late_short(asked())
    assert row["figures"]["late_first_token_ms"] == 5000
    assert row["note"] == ""


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ({"figures": {"answer_tokens_per_s": 12.3}, "failed": 0}, "12.3 tokens/s"),
        ({"figures": {"ram_first_token_ms": 900.4}, "failed": 0}, "ram 900 ms"),
        ({"figures": {}, "failed": 2, "error": "no"}, "2 requests failed: no"),
        ({"figures": {}, "failed": 0}, "nothing was measured"),
    ],
)
def test_a_step_is_told_in_one_line(row, line):
    assert loadsteps.describe(row) == line
