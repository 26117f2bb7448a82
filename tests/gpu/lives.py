"""A server's two lives: what it says of itself, what each KV tier answers, how each one ends."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostkit.generation import proofs as host_proofs
from tasks.shared.engine import proofs
from tests.gpu import ends, profile, server, tiers
from tests.gpu.record import milliseconds, record
from tests.gpu.server import Server


def nothing(*_: Any) -> None:
    """For a case that has nothing to look at besides."""


def live_twice(
    model: Path,
    case: str,
    changes: dict[str, Any],
    kill: tuple[str, str],
    *,
    look: Callable[[Server], None] = nothing,
    between: Callable[[], None] = nothing,
) -> None:
    """Start, ask from each tier, stop; start again, ask from SSD, and kill a process.

    `case` names what is recorded, and the SSD tier's folder. `kill` is the title of the process to
    kill and what it is called; `look` is given the first server, `between` looks at what it left.
    """
    shutil.rmtree(profile.SCRATCH / "ssd/kv" / case, ignore_errors=True)
    with server.start(model, name=f"{case}-1", fingerprint=case, **changes) as running:
        record(case, first_start_s=running.ready_s)
        shown_in_the_log(running, case)
        look(running)
        found = tiers.from_each_tier(running)
        drafts(running, case)
        end = ends.stopped(running, f"{case} SIGTERM")
    assert (end["exit_status"], end["processes_left"], end["regions_left"]) == (0, [], 0)
    assert tiers.files(case, "*.tmp") == []
    between()

    role, called = kill
    with server.start(model, name=f"{case}-2", fingerprint=case, **changes) as running:
        record(case, second_start_s=running.ready_s)
        found["ssd"] = tiers.after_restart(running)
        end = ends.killed(running, role, f"{case} SIGKILL of {called}")
    record(case, ssd_files=len(tiers.files(case)))
    tiers.judge(f"{case} tiers", found)
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
