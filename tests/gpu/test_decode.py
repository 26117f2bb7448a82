"""The fused TurboQuant decode on a GPU: exact, faster than stock, and right under MTP.

Six minutes on one H200 were planned for the servers of the second test: a quarter of the model's
layers, four of them attention (`DECODE_LAYERS=64` takes the whole), and 60,000 tokens for one and
for eight requests. A prompt is computed once and then answered from the prefix cache, so that all
requests decode together.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

from tests.gpu import model, profile, server
from tests.gpu.record import record
from tests.gpu.server import Reply, Server

LAYERS = int(os.environ.get("DECODE_LAYERS", "16"))
LENGTHS = {1: (1000, 16000, 60000), 8: (1000, 16000, 60000), 16: (1000, 16000)}
TOKENS = 64
SCRIPT = Path(__file__).with_name("decode_kernel.py")
_WHERE = "import importlib.util as u; print(u.find_spec('vllm').submodule_search_locations[0])"


def test_the_kernel_agrees_with_float64_over_presets_shapes_and_ragged_batches() -> None:
    package = Path(_python("-c", _WHERE).stdout.strip())
    done = _python(str(SCRIPT), "all", str(package.parent))
    said = [line.split()[0] for line in done.stdout.splitlines() if line]
    record("decode kernel", cases=said.count("ok") + said.count("BAD"), off=said.count("BAD"))
    assert said.count("ok") == 144, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_fused_kernel_is_faster_in_the_server_and_answers_as_stock_does() -> None:
    shape = replace(model.RANK, layers=LAYERS)
    folder = model.write(profile.SCRATCH / f"models/rank-{LAYERS}-layers", shape)
    steps: dict[str, dict[str, float]] = {}
    texts: dict[str, list[list[int]]] = {}
    for kernel in ("fused", "stock"):
        for mtp in (0, 1):
            case = f"decode {kernel} MTP {mtp}"
            with server.start(
                folder,
                name=case.replace(" ", "-"),
                gpus=1,
                kv_ram_gib=0,
                kv_ssd_gb=0,
                turboquant_decode=kernel,
                mtp_tokens=mtp,
            ) as running:
                assert running.log_lines(f"TurboQuant decode: {kernel} kernel")
                steps[case], texts[case] = _measured(running)
            record(case, start_s=running.ready_s, **steps[case])
    plain = texts["decode stock MTP 0"]
    for case, found in texts.items():
        share = _agreeing(plain, found)
        record(case, first_tokens_as_stock_without_mtp=share)
        # Another rounding may turn a near tie; a kernel that misses context agrees on nothing.
        assert share >= 0.6, case
    for mtp in (0, 1):
        fused, stock = (steps[f"decode {kernel} MTP {mtp}"] for kernel in ("fused", "stock"))
        for figure, stock_ms in stock.items():
            record("decode", **{f"mtp_{mtp}_{figure}_stock_over_fused": stock_ms / fused[figure]})
        assert fused["step_ms_1_of_60000"] < stock["step_ms_1_of_60000"]
        assert fused["step_ms_1_of_1000"] < 1.05 * stock["step_ms_1_of_1000"]


def _measured(running: Server) -> tuple[dict[str, float], list[list[int]]]:
    """Median time of a step by requests and context, and the first tokens of some answers.

    A step gives one token a request, with MTP one or two.
    """
    steps: dict[str, float] = {}
    texts = []
    for count, lengths in LENGTHS.items():
        for length in lengths:
            prompts = [server.document(5000 + n, length) for n in range(count)]
            for prompt in prompts:
                running.complete(prompt, 1)
            replies = running.together(prompts, TOKENS)
            steps[f"step_ms_{count}_of_{length}"] = _step_ms(replies)
            if count == 8 and length < 60000:
                texts += [reply.token_ids[:8] for reply in replies]
    return steps, texts


def _step_ms(replies: list[Reply]) -> float:
    """From the gaps of the second half, when every request decodes."""
    gaps = sorted(gap for reply in replies for gap in reply.gaps_s[len(reply.gaps_s) // 2 :])
    return 1000 * gaps[len(gaps) // 2]


def _agreeing(some: list[list[int]], others: list[list[int]]) -> float:
    same = [a == b for x, y in zip(some, others, strict=True) for a, b in zip(x, y, strict=True)]
    return sum(same) / len(same)


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [profile.python(), *arguments],
        env={**os.environ, "PYTHONPATH": os.environ.get("VLLM_PYTHONPATH", "")},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
