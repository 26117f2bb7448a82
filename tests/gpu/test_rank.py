"""The profile on one GPU, with the model as one of two tensor-parallel ranks computes it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from hostkit import proofs as host_proofs
from tasks.shared import proofs
from tests.gpu import ends, profile, server, tiers
from tests.gpu.record import milliseconds, record
from tests.gpu.server import Server

FINGERPRINT = "rank"
CHANGES: dict[str, Any] = {"gpus": 1, "extra_serve_args": tiers.POOL}


def test_the_profile_is_in_force_and_every_kv_tier_answers_as_computing_does(
    rank_model: Path,
) -> None:
    shutil.rmtree(profile.SCRATCH / "ssd/kv" / FINGERPRINT, ignore_errors=True)
    with server.start(rank_model, name="rank-1", fingerprint=FINGERPRINT, **CHANGES) as running:
        record("rank", first_start_s=running.ready_s)
        shown_in_the_log(running, "rank")
        found = tiers.from_each_tier(running)
        drafts(running, "rank")
        end = ends.stopped(running, "rank SIGTERM")
    assert (end["exit_status"], end["processes_left"], end["regions_left"]) == (0, [], 0)
    assert tiers.files(FINGERPRINT, "*.tmp") == []

    with server.start(rank_model, name="rank-2", fingerprint=FINGERPRINT, **CHANGES) as running:
        record("rank", second_start_s=running.ready_s)
        found["ssd"] = tiers.after_restart(running)
        end = ends.killed(running, "EngineCore", "rank SIGKILL of the engine")
    record("rank", ssd_files=len(tiers.files(FINGERPRINT)))
    tiers.judge("rank tiers", found)
    # What the unit rests on: Restart=always, since a dead engine ends the server with status 0.
    assert end["exit_status"] == 0
    assert end["processes_left"] == []


def shown_in_the_log(running: Server, case: str) -> None:
    """What the settings ask for is in force, as the watched start checks it; block and pool."""
    lines = running.log.read_text(encoding="utf-8", errors="replace").splitlines()
    assert host_proofs.missing(proofs.expected(running.settings), lines) == []
    (block,) = set(re.findall(r"Setting attention block size to (\d+) tokens", "\n".join(lines)))
    pool = re.findall(r"GPU KV cache size: ([\d,]+) tokens", "\n".join(lines))
    offloaded = re.findall(r"Total CPU offloaded parameters: ([\d.]+)", "\n".join(lines))
    record(
        case,
        block_tokens=int(block),
        pool_tokens=[int(each.replace(",", "")) for each in pool],
        tower_gib_in_ram=[float(each) for each in offloaded],
    )
    assert int(block) == 1584


def decoding(running: Server, case: str) -> None:
    """Time per token at 1, 8 and 16 requests."""
    for count in (1, 8, 16):
        prompts = [server.document(1000 + 100 * count + n, 1000) for n in range(count)]
        replies = running.together(prompts, 128)
        per_token = [(r.total_s - r.first_s) / (len(r.token_ids) - 1) for r in replies]
        record(case, **{f"ms_per_token_{count}": milliseconds(per_token)})


def drafts(running: Server, case: str) -> None:
    """How many drafts the model has accepted: some and not all, so that both ways were taken."""
    made, taken = (
        running.total(f"spec_decode_num_{name}_tokens_total") for name in ("draft", "accepted")
    )
    record(case, drafts=made, mean_accepted_length=1 + taken / max(made, 1))
    assert 0 < taken < made
