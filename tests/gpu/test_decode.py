"""The fused TurboQuant decode on a GPU: exact, and right in the server, with and without MTP.

The servers hold a quarter of the model's layers, four of them attention (`DECODE_LAYERS=64` takes
the whole). Times are test_decode_speed.py's.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

from tests.gpu import model, profile, server
from tests.gpu.record import record
from tests.gpu.server import Server

LAYERS = int(os.environ.get("DECODE_LAYERS", "16"))
SCRIPT = Path(__file__).with_name("decode_kernel.py")
_WHERE = "import importlib.util as u; print(u.find_spec('vllm').submodule_search_locations[0])"


def test_the_kernel_agrees_with_float64_over_presets_shapes_and_ragged_batches() -> None:
    package = Path(_python("-c", _WHERE).stdout.strip())
    done = _python(str(SCRIPT), "all", str(package.parent))
    said = [line.split()[0] for line in done.stdout.splitlines() if line]
    record("decode kernel", cases=said.count("ok") + said.count("BAD"), off=said.count("BAD"))
    assert said.count("ok") == 144, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_server_answers_with_either_kernel_as_stock_does_without_drafts() -> None:
    shape = replace(model.RANK, layers=LAYERS)
    folder = model.write(profile.SCRATCH / f"models/rank-{LAYERS}-layers", shape)
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
                texts[case] = _first_tokens(running)
    for case, found in texts.items():
        share = _agreeing(texts["decode stock MTP 0"], found)
        record(case, first_tokens_as_stock_without_mtp=share)
        # Another rounding may turn a near tie; a kernel that misses context agrees on nothing.
        assert share >= 0.6, case


def _first_tokens(running: Server) -> list[list[int]]:
    """Of eight answers at once to long texts, and to longer ones."""
    return [
        reply.token_ids
        for length in (1000, 16000)
        for reply in running.together([server.document(n, length) for n in range(8)], 8)
    ]


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
