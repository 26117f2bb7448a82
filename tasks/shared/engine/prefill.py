"""In which order prompts are computed while several wait: `prefill_order`."""

from typing import TYPE_CHECKING, Any, Literal

from tasks.shared.release import packages

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

PrefillOrder = Literal["upstream", "threshold", "shortest_first"]


def flags(settings: "Settings") -> dict[str, Any]:
    """vLLM's flags for it, without their dashes."""
    if settings.prefill_order == "threshold":
        return {"long-prefill-token-threshold": settings.long_prefill_token_threshold}
    if settings.prefill_order == "shortest_first":
        is_async = _schedules_ahead(settings)
        name = packages.ASYNC_SCHEDULER_CLASS if is_async else packages.SCHEDULER_CLASS
        return {"scheduler-cls": name}
    return {}


def _schedules_ahead(settings: "Settings") -> bool:
    """vLLM's default, but never on a CPU."""
    extra = settings.extra_serve_args
    is_off = extra.get("no-async-scheduling") or extra.get("async-scheduling") is False
    return settings.accelerator == "cuda" and not is_off


def check(settings: "Settings") -> None:
    """Raise ValueError when the settings that belong to the order do not fit each other.

    What vLLM itself refuses, such as a threshold above max_model_len, is in files/compat.
    """
    order, threshold = settings.prefill_order, settings.long_prefill_token_threshold
    if order == "threshold" and not threshold:
        raise ValueError(
            'prefill_order = "threshold" needs long_prefill_token_threshold above 0: a quarter of '
            f"max_num_batched_tokens is {max(settings.max_num_batched_tokens // 4, 1)}"
        )
    if order != "threshold" and threshold:
        raise ValueError(
            f"long_prefill_token_threshold ({threshold}) has no effect with prefill_order = "
            f'"{order}": set it to 0, or prefill_order = "threshold"'
        )
    checked = packages.checked_versions()
    if order == "shortest_first" and settings.vllm_version not in checked:
        raise ValueError(
            f'prefill_order = "shortest_first" was checked on vLLM {" and ".join(checked)}, '
            f"not on {settings.vllm_version}: files/scheduler/shortest_first/versions.py"
        )
