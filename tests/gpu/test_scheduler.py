"""The orders of prefills on a GPU: the same load under each, one server after the other.

Four minutes on one H200 were planned for it: a quarter of the model's layers, so that the servers
start quickly; `SCHEDULER_LAYERS=64` takes the whole. `SCHEDULER_ORDERS` names other orders than
these three, comma-separated: upstream, shortest_first, or a threshold as a number of tokens.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests import prefill_orders
from tests.gpu import model, profile, server
from tests.gpu.record import record

LAYERS = int(os.environ.get("SCHEDULER_LAYERS", "16"))
ORDERS = os.environ.get("SCHEDULER_ORDERS", "upstream,512,shortest_first").split(",")
LOAD = prefill_orders.Load(
    long_prompt=60000,
    late_s=0.3 * LAYERS / 16,
    # The first fits into what a block of 1,584 leaves of a step of 2,048, the others do not.
    shorts=(40, 700, 2000),
    trials=2,
    mixed=100,
    mixed_spread_s=6.0 * LAYERS / 16,
    mixed_prompts=(100, 16000),
    vocabulary=(model.FIRST_PLAIN_TOKEN, model.VOCABULARY),
)


def settings_of(order: str) -> dict[str, Any]:
    if order.isdecimal():
        return {"prefill_order": "threshold", "long_prefill_token_threshold": int(order)}
    return {"prefill_order": order, "long_prefill_token_threshold": 0}


def compared(folder: Path, orders: Iterable[str]) -> dict[str, dict[str, float]]:
    """What a client sees under each of the orders."""
    found = {}
    for order in orders:
        changes = settings_of(order) | {"gpus": 1, "kv_ssd_gb": 0}
        with server.start(folder, name=f"scheduler-{order}", **changes) as running:
            # The first requests after a start compile kernels, by length.
            for length in (40, 700, 2000, 9000):
                running.complete(server.document(length, length), 8)
            record(f"scheduler {order}", start_s=running.ready_s)
            found[order] = prefill_orders.measure(running.complete, LOAD)
    return found


def test_a_late_short_prompt_waits_under_upstream_and_not_under_shortest_first() -> None:
    shape = replace(model.RANK, layers=LAYERS)
    folder = model.write(profile.SCRATCH / f"models/rank-{LAYERS}-layers", shape)
    found = compared(folder, ORDERS)
    print(prefill_orders.table(found))
    for order, figures in found.items():
        record(f"scheduler {order}", **figures)
    for short in (700, 2000):
        late = f"{short} tokens late"
        waited = {order: figures[f"{late}: its first token"] for order, figures in found.items()}
        left = {
            order: figures[f"{late}: the long one's first token"] - LOAD.late_s
            for order, figures in found.items()
        }
        if "upstream" in found:
            assert waited["upstream"] > 0.9 * left["upstream"], late
        if "shortest_first" in found:
            assert waited["shortest_first"] < 0.5 * left["shortest_first"], late
