"""The profile on one GPU, with the model as one of two tensor-parallel ranks computes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.gpu import lives, tiers

CHANGES: dict[str, Any] = {"gpus": 1, "extra_serve_args": tiers.POOL}


def test_the_profile_is_in_force_and_every_kv_tier_answers_as_computing_does(
    rank_model: Path,
) -> None:
    lives.live_twice(rank_model, "rank", CHANGES, ("EngineCore", "the engine"))
