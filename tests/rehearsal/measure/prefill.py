"""What each order of prefills does to a late short prompt, and to a hundred mixed ones:
`python -m tests.rehearsal.measure.prefill [NAME] [ORDER,ORDER…]`, against a rehearsal host that is
up. An order is upstream, shortest_first, or a threshold as a number of tokens.

The host is deployed and restarted once for each, and left with the last. The first is what the
ratios are to: on a noisy machine they say more than the seconds.
"""

from __future__ import annotations

import sys

import tasks.shared  # noqa: F401 - hostkit can be imported from then on
from tests import prefill_orders

from .. import deploys
from ..host import state

ORDERS = "upstream,256,128,shortest_first"
LOAD = prefill_orders.Load(
    long_prompt=7000,
    late_s=1.0,
    shorts=(40, 400),
    trials=1,
    mixed=100,
    mixed_spread_s=30.0,
    mixed_prompts=(20, 1500),
)
DATA = {"max_model_len": "8192", "max_num_batched_tokens": "512", "max_num_seqs": "16"}


def settings_of(order: str) -> dict[str, str]:
    """The settings that an order stands for, as `--data` has them."""
    if order.isdecimal():
        return DATA | {"prefill_order": "threshold", "long_prefill_token_threshold": order}
    return DATA | {"prefill_order": order, "long_prefill_token_threshold": "0"}


def serve(name: str, order: str) -> None:
    """Let the host serve with this order."""
    data = [word for pair in settings_of(order).items() for word in ("--data", "=".join(pair))]
    for task in ("deploy.py", "tasks/restart_vllm.py"):
        done = deploys.pyinfra(task, "-y", *data, host=name)
        if done.returncode:
            sys.exit(f"{task} with {order}: {done.stderr[-2000:]}")


def main(name: str, orders: str) -> None:
    found = {}
    for order in orders.split(","):
        serve(name, order)
        port, key = state.load(name).api_port, deploys.api_key(name)
        ask = prefill_orders.http_ask(port, key, "smollm2-135m")
        ask(range(1000, 1100), 2)
        found[order] = prefill_orders.measure(ask, LOAD)
    print(prefill_orders.table(found))


if __name__ == "__main__":
    words = sys.argv[1:]
    main(*words, *[state.DEFAULT_NAME, ORDERS][len(words) :])
