"""The KV tiers' scenario: the same documents computed, and read again from GPU, RAM and SSD."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tests.gpu import profile, server
from tests.gpu.record import record
from tests.gpu.server import Reply, Server

LENGTH = 16000
DOCUMENTS = [server.document(seed, LENGTH) for seed in range(4)]
FILLERS = [server.document(100 + seed, LENGTH) for seed in range(3)]
TOP = 20
TOKENS = 16

BF16_STEP = 0.0625
"""Two neighbouring bfloat16 logits, of the size that a choice among 32,768 tokens has, differ by
half of this: what a single rounding may do to a difference of two of them."""

# So small a pool that three documents push a fourth out; by itself it would hold hundreds.
POOL = {"num-gpu-blocks-override": 60}


@dataclass
class Answers:
    """One way of getting documents' KV, and what was answered to each by its number."""

    replies: dict[int, Reply] = field(default_factory=dict)

    @property
    def first_s(self) -> float:
        return median(reply.first_s for reply in self.replies.values())

    def differences(self, computed: Answers) -> list[float]:
        """Of each document's first token's logprobs: see `difference`."""
        return [difference(reply, computed.replies[n]) for n, reply in self.replies.items()]

    def same_text(self, computed: Answers) -> int:
        return sum(r.token_ids == computed.replies[n].token_ids for n, r in self.replies.items())

    def same_first_token(self, computed: Answers) -> int:
        return sum(
            r.token_ids[0] == computed.replies[n].token_ids[0] for n, r in self.replies.items()
        )


def difference(one: Reply, two: Reply) -> float:
    """The largest difference of logprobs among the tokens that both have in their top."""
    shared = one.first_logprobs.keys() & two.first_logprobs.keys()
    if len(shared) < TOP // 2:
        return float("inf")
    return max(abs(one.first_logprobs[t] - two.first_logprobs[t]) for t in shared)


def ask(running: Server, documents: list[list[int]], salt: str | None = None) -> Answers:
    """One document after the other."""
    replies = [running.complete(d, TOKENS, salt=salt, logprobs=TOP) for d in documents]
    return Answers(dict(enumerate(replies)))


def from_each_tier(running: Server) -> dict[str, Answers]:
    """Computed alone, in company and with a block changed; from the GPU; from RAM."""
    running.complete(server.document(99, 64))  # the first request compiles
    together = running.together(DOCUMENTS, TOKENS, salt="company", logprobs=TOP)
    changed = [[*d[:4000], *server.document(7, 1584), *d[5584:]] for d in DOCUMENTS]
    other = ask(running, changed, salt="changed")
    found = {"computed": Answers(), "gpu": Answers(), "changed": other}
    found["company"] = Answers(dict(enumerate(together)))
    for number, document in enumerate(DOCUMENTS):
        for name in ("computed", "gpu"):
            found[name].replies[number] = running.complete(document, TOKENS, logprobs=TOP)
    settle(running)
    ask(running, FILLERS)
    settle(running)
    found["ram"] = _from_ram(running)
    return found


def after_restart(running: Server) -> Answers:
    """From SSD: a server that has just started has nothing else."""
    running.complete(server.document(98, 64))
    before = running.total("kv_offload_tiering_read_bytes_total")
    found = ask(running, DOCUMENTS)
    assert running.total("kv_offload_tiering_read_bytes_total") > before
    return found


def _from_ram(running: Server) -> Answers:
    """The documents that RAM alone gave, asked for last first, judged by the bytes read."""
    found = Answers()
    for number in reversed(range(len(DOCUMENTS))):
        ssd = running.total("kv_offload_tiering_read_bytes_total")
        hits = running.total("external_prefix_cache_hits_total")
        reply = running.complete(DOCUMENTS[number], TOKENS, logprobs=TOP)
        from_ssd = running.total("kv_offload_tiering_read_bytes_total") - ssd
        if running.total("external_prefix_cache_hits_total") > hits and not from_ssd:
            found.replies[number] = reply
    assert found.replies, "no document came from RAM"
    return found


def judge(case: str, found: dict[str, Answers]) -> None:
    """Record times and differences, and require that every tier answers as computing does.

    The same: within the spread of two computed runs, one of them in the company of others. A
    document with one of its ten blocks changed must differ by more, or this would see nothing.
    """
    computed = found["computed"]
    spread = max(*found["company"].differences(computed), BF16_STEP)
    changed = found["changed"].differences(computed)
    record(case, spread=spread, block_changed_least=min(changed), block_changed_most=max(changed))
    record(case, computed_first_token_s=computed.first_s, company_of=len(DOCUMENTS))
    tiers = {name: found[name] for name in ("gpu", "ram", "ssd") if name in found}
    for name, answers in tiers.items():
        figures = {
            "first_token_s": answers.first_s,
            "documents": len(answers.replies),
            "difference": max(answers.differences(computed)),
            "same_text": answers.same_text(computed),
            "same_first_token": answers.same_first_token(computed),
        }
        record(case, **{f"{name}_{key}": value for key, value in figures.items()})
    for name, answers in tiers.items():
        assert max(answers.differences(computed)) <= spread, name
    assert min(changed) > spread


def settle(running: Server, timeout_s: float = 30) -> None:
    """Wait until nothing more is written to the SSD tier."""
    last, deadline = -1.0, time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        written = running.total("kv_offload_tiering_write_bytes_total")
        if written == last:
            return
        last = written
        time.sleep(1.5)


def files(fingerprint: str, pattern: str = "*.bin") -> list[Path]:
    """The chunk files of one fingerprint's folder, or others in it."""
    return sorted((profile.SCRATCH / "ssd/kv" / fingerprint).rglob(pattern))
