"""The quality check: does a server still answer as well as the one before it?

Scores are compared, never texts: a hybrid's output after a restore from SSD is not bit-identical.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hostkit.generation import generations
from hostkit.host.jobs import progress
from hostkit.host.process import Failure
from hostkit.measure import questions, restore
from hostkit.serving import goodstart, server

TOLERANCE = 0.15
"""How much of the score may be lost: one of the eight short questions, which chance may cost."""
AT_ONCE = 4
ANSWER_TOKENS = 48
THINKING_TOKENS = 4096


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("quality", help="ask the server questions and score it")
    parser.set_defaults(run=lambda _args: _run())


def _run() -> int:
    found = server.find()
    print(f"{measure(found):.0%} of the answers are right")
    return 0


def measure(found: server.Server) -> float:
    """The share of right answers. Where KV is offloaded, the lower of two passes counts.

    The first pass is computed: nothing that a cache holds is used. The second is asked after its
    KV was pushed out of the GPU and, where there is an SSD tier, out of RAM, so that it comes back
    from there. Failure when its score is lower by more than the tolerance.
    """
    note = generations.note(found.generation)
    context = note.get("max_model_len", 0)
    asked = questions.of(context)
    thinks = bool(note.get("thinks"))
    # Both passes have it, and nobody else: what an earlier check left is not read again.
    options: dict[str, Any] = {"cache_salt": os.urandom(16).hex()}
    options["max_tokens"] = THINKING_TOKENS if thinks else ANSWER_TOKENS
    if thinks:
        options["chat_template_kwargs"] = {"enable_thinking": True}
    progress(f"quality check: {len(asked)} questions{', thinking' if thinks else ''}")
    computed = _score(found, asked, options)
    below = restore.tiers(found.generation)
    if below is None:
        progress(f"quality {computed:.0%}, computed")
        return computed
    restore.push_out(found, below, context)
    before = restore.counters(found)
    restored = _score(found, asked, options)
    after = restore.counters(found)
    tokens = int(after.restored_tokens - before.restored_tokens)
    from_ssd = after.ssd_bytes - before.ssd_bytes
    said = f"quality {computed:.0%} computed, {restored:.0%} with {tokens:,} tokens restored"
    progress(said + (f", {from_ssd / 1e6:,.1f} MB of it from SSD" if below.ssd else ""))
    if not tokens:
        progress("warning: no KV came back from RAM or SSD, so that was not compared")
        return computed
    if below.ssd and not from_ssd:
        progress("warning: no KV came back from SSD, so that tier was not compared")
    if computed - restored > TOLERANCE:
        raise Failure(
            f"answers from restored KV are worse: {restored:.0%} right, {computed:.0%} computed"
        )
    return min(computed, restored)


def worse(now: float, before: float | None) -> str | None:
    """Why a score is not good enough beside the one before; None when it is."""
    if before is None or before - now <= TOLERANCE:
        return None
    return f"{now:.0%} of the quality check's answers are right, {before:.0%} were before"


def baseline(number: int | None) -> float | None:
    """The score that a generation had when it started to serve."""
    found = goodstart.of_generation(number)
    return found.score if found else None


def _score(found: server.Server, asked: list[questions.Question], options: dict[str, Any]) -> float:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        right = list(pool.map(lambda each: _is_right(found, each, options), asked))
    return sum(right) / len(right)


def _is_right(found: server.Server, question: questions.Question, options: dict[str, Any]) -> bool:
    message = server.message(found, question.text, options, timeout_s=600)
    return questions.is_right(question, str(message.get("content") or ""))
