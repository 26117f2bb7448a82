"""Which kernel decodes a TurboQuant KV cache: ours (patch 0003 of the series) or vLLM's own."""

from typing import TYPE_CHECKING

from tasks.shared.release import patches

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

FUSED_LINE = r"TurboQuant decode: fused kernel"
KERNEL = "vllm/v1/attention/ops/triton_turboquant_fused.py"
PROGRAMS = "TQ_SIMT_CTAS_PER_SM"
"""Of ours and of pull request 53060 alike: programs of the decode kernel a multiprocessor."""


def environment(settings: "Settings") -> dict[str, str]:
    """What tells the patched backend which kernel to use; nothing without TurboQuant."""
    if not uses_turboquant(settings):
        return {}
    return {"TQ_DECODE": settings.turboquant_decode}


def uses_turboquant(settings: "Settings") -> bool:
    return settings.accelerator == "cuda" and settings.kv_cache_dtype.startswith("turboquant_")


def fused(settings: "Settings") -> bool:
    """Whether a start must show that the fused kernel decodes."""
    return uses_turboquant(settings) and settings.turboquant_decode == "fused"


def check(settings: "Settings") -> None:
    """ValueError for what the patched backend would refuse at every start."""
    programs = settings.extra_env.get(PROGRAMS)
    if programs is not None and not (programs.isdecimal() and 1 <= int(programs) <= 32):
        raise ValueError(f"extra_env: {PROGRAMS} is {programs!r}, must be from 1 to 32")
    if fused(settings) and not any(KERNEL in p.files for p in patches.wanted(settings)):
        raise ValueError(
            f"turboquant_decode = 'fused' needs the patch that adds {KERNEL}, and the patches of "
            f"this release (vLLM {settings.vllm_version}) have none: use 'stock'"
        )
    if fused(settings) and settings.dtype not in ("auto", "bfloat16"):
        raise ValueError(
            f"turboquant_decode = 'fused' is for dtype 'bfloat16', not {settings.dtype!r}: its "
            "products are in fp16; use turboquant_decode = 'stock'"
        )
