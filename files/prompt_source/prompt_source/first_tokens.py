"""First tokens as vLLM's IterationStats sees them, one by one.

What vLLM hands to a stat logger is added up over a step already: the times in one list, the tokens
in one sum. Which belongs to which is known only in IterationStats.update_from_output, so that is
followed here.
"""

import functools
import inspect
from typing import Any

from prompt_source.sources import FirstToken

_KEPT = "_prompt_source_first_tokens"
_PARAMETERS = ["self", "output", "engine_core_timestamp", "is_prefilling", "req_stats"]


class Unfamiliar(Exception):
    """This version of vLLM is not as the plugin knows it."""


def follow(stats_class: Any) -> None:
    """Let every object of vLLM's IterationStats keep its first tokens; a second call does nothing.

    Raises Unfamiliar when its update_from_output is called otherwise than expected.
    """
    original = stats_class.update_from_output
    if getattr(original, _KEPT, False):
        return
    found = list(inspect.signature(original).parameters)
    if found[: len(_PARAMETERS)] != _PARAMETERS:
        raise Unfamiliar(f"IterationStats.update_from_output takes {found}")

    @functools.wraps(original)
    def update_from_output(
        self: Any,
        output: Any,
        engine_core_timestamp: float,
        is_prefilling: bool,
        req_stats: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        result = original(
            self, output, engine_core_timestamp, is_prefilling, req_stats, *args, **kwargs
        )
        if is_prefilling:
            # Read by `of`, where what goes wrong cannot reach the server's loop.
            self.__dict__.setdefault(_KEPT, []).append(
                (getattr(output, "prefill_stats", None), req_stats)
            )
        return result

    setattr(update_from_output, _KEPT, True)
    stats_class.update_from_output = update_from_output


def of(iteration_stats: Any) -> list[FirstToken]:
    """The first tokens of one step. One without prefill statistics, of a resumed session, is not
    among them."""
    kept = vars(iteration_stats).get(_KEPT, ()) if iteration_stats is not None else ()
    return [
        FirstToken(
            latency_s=request.first_token_latency,
            prefill_s=max(request.first_token_ts - request.scheduled_ts, 0.0),
            computed=prefill.num_computed_tokens,
            gpu_cache=prefill.num_local_cached_tokens,
            offloaded=prefill.num_external_cached_tokens,
        )
        for prefill, request in kept
        if prefill is not None
    ]
