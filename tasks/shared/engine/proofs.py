"""What the log of a start must show for the settings to be in force.

hostkit/generation/proofs.py looks for it on the host.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tasks.shared.engine import decode

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

_QUIET = ("WARNING", "ERROR", "CRITICAL")


def expected(settings: "Settings") -> list[dict[str, Any]]:
    """The lines that vLLM 0.31 writes at level INFO when it does what it was told.

    Raises ValueError when `extra_env` silences them.
    """
    found = list(_lines(settings))
    level = settings.extra_env.get("VLLM_LOGGING_LEVEL", "")
    if found and level.upper() in _QUIET:
        raise ValueError(
            f"extra_env: VLLM_LOGGING_LEVEL = {level} hides the lines by which a start is checked: "
            "use INFO or DEBUG"
        )
    return found


def _lines(s: "Settings") -> Iterator[dict[str, Any]]:
    if s.vision_tower == "cpu":
        # Each rank adds up what it moved; without a match in the model it writes nothing at all.
        # One that reaches its allowance leaves the rest of the tower on the GPU.
        yield {
            "line": r"Total CPU offloaded parameters: (?!0\.0\b)([\d.]+)",
            "below": s.vision_tower_gib,
            "shows": "the whole vision tower is in RAM (vision_tower, vision_tower_gib)",
            "processes": s.gpus,
        }
    if s.kv_cache_dtype.startswith("turboquant"):
        yield {
            "line": r"Using (AttentionBackendEnum\.)?TURBOQUANT (attention )?backend",
            "shows": f"attention reads {s.kv_cache_dtype} (kv_cache_dtype)",
        }
    if decode.fused(s):
        yield {
            "line": decode.FUSED_LINE,
            "shows": "the fused kernel decodes (turboquant_decode = 'fused')",
        }
    if s.gpus > 1:
        yield {
            "line": r"Using \['PYNCCL'\] all-reduce backends .* for group 'tp",
            "shows": "the GPUs communicate through NCCL and nothing else",
        }
    if s.prefill_order == "shortest_first":
        yield {
            "line": r"Shortest-first prefill: \w+ deals \d+ tokens a step",
            "shows": "the shortest prompt goes first (prefill_order)",
        }
