"""The quality check: does a server still answer as well as the one before it?

Scores are compared, never texts: a hybrid's output after a restore from SSD is not bit-identical.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hostkit import generations, goodstart, questions, server
from hostkit.jobs import progress
from hostkit.process import Failure

TOLERANCE = 0.15
"""How much of the score may be lost: one of the eight short questions, which chance may cost."""
AT_ONCE = 4
ANSWER_TOKENS = 48
THINKING_TOKENS = 4096
FILLER_WORDS = 8000


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("quality", help="ask the server questions and score it")
    parser.set_defaults(run=lambda _args: _run())


def _run() -> int:
    found = server.find()
    print(f"{measure(found):.0%} of the answers are right")
    return 0


def measure(found: server.Server) -> float:
    """The share of right answers. Where there is an SSD tier, the lower of two passes counts.

    The second pass is asked after the first one's KV was pushed out of the GPU, so that it comes
    back from RAM and SSD. Failure when its score is lower by more than the tolerance.
    """
    note = generations.note(found.generation)
    asked = questions.of(note.get("max_model_len", 0))
    thinks = bool(note.get("thinks"))
    progress(f"quality check: {len(asked)} questions{', thinking' if thinks else ''}")
    computed = _score(found, asked, thinks)
    if not note.get("kv_offload"):
        progress(f"quality {computed:.0%}, computed")
        return computed
    before = _restored_tokens(found)
    _push_out(found)
    restored = _score(found, asked, thinks)
    tokens = int(_restored_tokens(found) - before)
    progress(f"quality {computed:.0%} computed, {restored:.0%} with {tokens:,} tokens restored")
    if not tokens:
        progress("warning: no KV came back from RAM or SSD, so that was not compared")
    elif computed - restored > TOLERANCE:
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


def _score(found: server.Server, asked: list[questions.Question], thinks: bool) -> float:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        right = list(pool.map(lambda each: _is_right(found, each, thinks), asked))
    return sum(right) / len(right)


def _is_right(found: server.Server, question: questions.Question, thinks: bool) -> bool:
    options: dict[str, Any] = {"max_tokens": THINKING_TOKENS if thinks else ANSWER_TOKENS}
    if thinks:
        options["chat_template_kwargs"] = {"enable_thinking": True}
    message = server.message(found, question.text, options, timeout_s=600)
    return questions.is_right(question, str(message.get("content") or ""))


def _push_out(found: server.Server) -> None:
    """Fill the GPU's KV pool with other texts."""
    start = goodstart.of_generation(found.generation)
    pool = (start.kv_tokens if start else None) or 0
    texts = int(pool / (FILLER_WORDS * 1.2)) + 1 if pool else 0
    progress(f"pushing it out of the GPU with {texts} other texts")
    with ThreadPoolExecutor(AT_ONCE) as executor:
        prompts = (questions.filler(FILLER_WORDS, number) for number in range(texts))
        list(executor.map(lambda prompt: server.complete(found, prompt, 1), prompts))


def _restored_tokens(found: server.Server) -> float:
    return server.total(server.metrics(found), "vllm:external_prefix_cache_hits_total") or 0.0
