"""Time per token in the real server with vLLM's own TurboQuant decode and with ours.

One rank's shape, KV tiers off. `DECODE` names the kernels to try, comma-separated, `DECODE_MTP` the
numbers of drafts, `DECODE_LAYERS` how much of the model. With drafts vLLM's own kernel runs without
full CUDA graphs, with which it would be wrong (files/patches). Documents of one point differ, so no
request reads another one's KV; from point to point they grow, so that each token is computed once.
What counts is the time in which all requests of a point decode: what of a prompt is in no cache is
computed before it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from tests.gpu import model, profile, server
from tests.gpu.record import record
from tests.gpu.server import Reply

KERNELS = os.environ.get("DECODE", "stock,fused").split(",")
DRAFTS = [int(each) for each in os.environ.get("DECODE_MTP", "0,1").split(",")]
LAYERS = int(os.environ.get("DECODE_LAYERS", model.RANK.layers))
# Tokens of context, and how many such requests at once.
POINTS = [(context, count) for context in (1000, 16000, 60000) for count in (1, 8, 16)]
TOKENS = 256


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("drafts", DRAFTS)
def test_time_per_token(kernel: str, drafts: int) -> None:
    folder = profile.SCRATCH / f"models/rank-{LAYERS}-layers"
    folder = model.write(folder, replace(model.RANK, layers=LAYERS))
    changes: dict[str, Any] = {
        "gpus": 1,
        "mtp_tokens": drafts,
        "turboquant_decode": kernel,
        "kv_ram_gib": 0,
        "kv_ssd_gb": 0,
    }
    case = f"decode {kernel} mtp {drafts}"
    with server.start(folder, name=case.replace(" ", "-"), **changes) as running:
        record(case, layers=LAYERS, start_s=running.ready_s)
        for context, count in POINTS:
            prompts = [server.document(n, context) for n in range(count)]
            # The prompts first, so that their prefill is in no token's time.
            running.together(prompts, 2)
            replies = running.together(prompts, TOKENS)
            record(case, **{f"ms_per_token_{context}_{count}": ms_per_token(replies)})


def ms_per_token(replies: list[Reply]) -> float:
    """Of one request, from when the last one's first token came until the first one had all."""
    begin = max(reply.arrived_s[0] for reply in replies)
    end = min(reply.arrived_s[-1] for reply in replies)
    tokens = sum(begin < each <= end for reply in replies for each in reply.arrived_s)
    # Prompts of 60,000 numbers take the server a while to read, one after the other.
    assert tokens > TOKENS * len(replies) / 2, "too few tokens while all requests decode"
    return 1000 * (end - begin) * len(replies) / tokens
