"""One run of `vllm bench serve`, the deployed release's own, against the server that runs."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostkit.generation import generations
from hostkit.host import paths, process, serviceuser
from hostkit.host.process import Failure
from hostkit.measure import prompts
from hostkit.serving import server

POLL_S = 0.5
TOLD_EVERY_S = 15.0
SAMPLE_WORDS = 400
MARGIN = 0.96
"""Of the tokens that were asked for: what a text may have more of them than its genre's sample."""

_FIGURES = {
    "output_throughput": "answer_tokens_per_s",
    "total_token_throughput": "all_tokens_per_s",
    "p50_ttft_ms": "first_token_p50_ms",
    "p95_ttft_ms": "first_token_p95_ms",
    "p50_tpot_ms": "token_p50_ms",
    "p95_itl_ms": "gap_p95_ms",
    "spec_decode_acceptance_length": "accepted_length",
}
"""vLLM's names in the result, and ours."""


@dataclass(frozen=True)
class Run:
    """What is asked: a prompt of so many tokens each, answers of so many, so many at once."""

    name: str
    prompts: str
    tokens: tuple[int, ...]
    answer: int
    concurrency: int


def tokens_per_word(found: server.Server, genre: str) -> tuple[float, int]:
    """A genre's tokens for each word, and those that the chat template adds, asked of the server.

    Raises NotAnswering.
    """
    sample = server.count_tokens(found, prompts.text(genre, SAMPLE_WORDS, "sample"))
    short = server.count_tokens(found, prompts.text(genre, 1, "sample"))
    ratio = (sample - short) / (SAMPLE_WORDS - 1)
    return ratio, short


def texts(run: Run, salt: str, ratios: Callable[[str], tuple[float, int]]) -> list[dict[str, Any]]:
    """The rows of vLLM's `custom` data set for a run: prompts of at most the tokens asked for."""
    genres = prompts.GENRES if run.prompts == "real" else (prompts.NOISE,)
    rows = []
    for index, tokens in enumerate(run.tokens):
        genre = genres[index % len(genres)]
        ratio, fixed = ratios(genre)
        words = max(1, int((tokens - fixed) * MARGIN / ratio))
        prompt = prompts.text(genre, words, f"{salt}-{index}")
        rows.append({"prompt": prompt, "output_tokens": run.answer})
    return rows


def command(found: server.Server, run: Run, dataset: Path, results: Path) -> list[str]:
    """The command line; texts, lengths and order are the data set's, answers are never shorter."""
    note = generations.note(found.generation)
    vllm = paths.RELEASES / note["release"] / "venv/bin/vllm"
    return [
        *(str(vllm), "bench", "serve", "--backend", "openai", "--endpoint", "/v1/completions"),
        *("--base-url", found.url, "--model", found.model, "--tokenizer", note["model_dir"]),
        *("--dataset-name", "custom", "--dataset-path", str(dataset), "--disable-shuffle"),
        *("--custom-output-len", "-1", "--num-prompts", str(len(run.tokens))),
        *("--max-concurrency", str(run.concurrency), "--request-rate", "inf"),
        *("--ignore-eos", "--temperature", "0", "--disable-tqdm"),
        *("--percentile-metrics", "ttft,tpot,itl", "--metric-percentiles", "50,95"),
        *("--save-result", "--save-detailed"),
        *("--result-dir", str(results.parent), "--result-filename", results.name),
    ]


def figures(result: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a result: our names for the figures, requests, and the first error."""
    errors = [str(each).strip().splitlines() for each in result.get("errors", []) if each]
    kept = {
        ours: round(float(result[theirs]), 3)
        for theirs, ours in _FIGURES.items()
        if isinstance(result.get(theirs), int | float)
    }
    return {
        "figures": kept,
        "completed": int(result.get("completed", 0)),
        "failed": int(result.get("failed", 0)),
        "error": errors[0][-1][:300] if errors and errors[0] else "",
        "prompt_tokens": int(result.get("total_input_tokens", 0)),
        "answer_tokens": int(result.get("total_output_tokens", 0)),
        "seconds": round(float(result.get("duration", 0)), 2),
    }


def measure(
    found: server.Server,
    run: Run,
    rows: Sequence[Mapping[str, Any]],
    work: Path,
    ends: float,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Run it and return its `figures`. Failure when it fails or is not over by `ends`."""
    user = serviceuser.to_become()
    out = work / "out"
    out.mkdir(parents=True, exist_ok=True)
    if user:
        os.chown(out, user.pw_uid, user.pw_gid)
    dataset, result = work / "prompts.jsonl", out / "result.json"
    result.unlink(missing_ok=True)
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    log = work / "bench.log"
    with log.open("wb") as output:
        bench = subprocess.Popen(
            command(found, run, dataset, result),
            env=environment(found, out),
            cwd=out,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **serviceuser.identity(),
        )
        try:
            _follow(bench, found, run, ends, say)
        finally:
            if bench.poll() is None:
                os.killpg(bench.pid, signal.SIGKILL)
                bench.wait()
    if bench.returncode:
        said = process.reason(log.read_text("utf-8", "replace"), bench.returncode)
        raise Failure(f"vllm bench serve ({run.name}): {said}")
    return figures(process.read_json(result))


def environment(found: server.Server, home: Path) -> dict[str, str]:
    """The server's own environment; the key goes where vLLM's client looks for one."""
    told: dict[str, str] = dict(generations.note(found.generation).get("environment", {}))
    return told | {
        "TMPDIR": str(home),
        "OPENAI_API_KEY": server.api_key(found.pid),
        "LC_ALL": "C.UTF-8",
    }


def _follow(
    bench: subprocess.Popen[bytes],
    found: server.Server,
    run: Run,
    ends: float,
    say: Callable[[str], None],
) -> None:
    """Wait until it ends, and say now and then how far it is."""
    before, told = _done(found), time.monotonic()
    while bench.poll() is None:
        now = time.monotonic()
        if now > ends:
            raise Failure(f"{run.name}: the time for the whole test is over")
        if now - told >= TOLD_EVERY_S:
            told = now
            say(f"{run.name}: {_done(found) - before:.0f} of {len(run.tokens)} requests answered")
        time.sleep(POLL_S)


def _done(found: server.Server) -> float:
    try:
        return server.total(server.metrics(found), "vllm:request_success_total") or 0.0
    except server.NotAnswering:
        return 0.0
