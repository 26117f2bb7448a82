"""Time per token in the real server with vLLM's own TurboQuant decode and with ours.

One rank's shape, KV tiers off. `DECODE` names the kernels to try, comma-separated, `DECODE_MTP` the
numbers of drafts. With drafts vLLM's own kernel runs without full CUDA graphs, with which it would
be wrong (files/patches). Documents differ, so no request reads another one's KV.
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import server
from tests.gpu.record import record

KERNELS = os.environ.get("DECODE", "stock,fused").split(",")
DRAFTS = [int(each) for each in os.environ.get("DECODE_MTP", "0,1").split(",")]
# Tokens of context, and how many such requests at once.
POINTS = [(1000, 1), (1000, 8), (1000, 16), (16000, 1), (16000, 8), (16000, 16), (60000, 1)]
TOKENS = 48


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("drafts", DRAFTS)
def test_time_per_token(rank_model: Path, kernel: str, drafts: int) -> None:
    changes: dict[str, Any] = {
        "gpus": 1,
        "mtp_tokens": drafts,
        "turboquant_decode": kernel,
        "kv_ram_gib": 0,
        "kv_ssd_gb": 0,
    }
    case = f"decode {kernel} mtp {drafts}"
    with server.start(rank_model, name=case.replace(" ", "-"), **changes) as running:
        record(case, start_s=running.ready_s)
        for context, count in POINTS:
            prompts = [server.document(1000 * count + n, context) for n in range(count)]
            # The prompts first, so that their prefill is in no token's time.
            running.together(prompts, 2)
            replies = running.together(prompts, TOKENS)
            per_token = [(r.total_s - r.first_s) / (TOKENS - 1) for r in replies]
            key = f"ms_per_token_{context}_{count}"
            record(case, **{key: round(1000 * statistics.median(per_token), 2)})
