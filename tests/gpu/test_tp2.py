"""The profile on two GPUs, tensor parallel, with the article's whole model."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from tests.gpu import ends, lives, server, tiers
from tests.gpu.record import record
from tests.gpu.server import Server

FINGERPRINT = "tp2"
CHANGES: dict[str, Any] = {"extra_serve_args": tiers.POOL}


def test_two_ranks_serve_share_the_ram_tier_and_answer_the_same_from_every_tier(
    full_model: Path,
) -> None:
    def look(running: Server) -> None:
        only_nccl(running)
        both_map_the_region(running)

    lives.live_twice(
        full_model,
        FINGERPRINT,
        CHANGES,
        ("Worker_TP1", "one worker"),
        look=look,
        between=both_ranks_are_in_the_files,
    )


def only_nccl(running: Server) -> None:
    """The tensor-parallel group all-reduces through NCCL and nothing else."""
    lines = running.log_lines("all-reduce backends .* for group 'tp")
    assert lines
    used = [re.findall(r"Using \[(.*?)\] all-reduce", line) for line in lines]
    record("tp2", all_reduce=sorted({each for found in used for each in found}))
    assert all("Using ['PYNCCL'] all-reduce" in line for line in lines)


def both_map_the_region(running: Server) -> None:
    """Both workers have the one offload region mapped, which has the size that was set."""
    (region,) = running.regions()
    mapped = {
        worker[0]
        for pid, name in running.processes().items()
        if (worker := re.search(r"Worker_TP\d", name))
        and str(region) in Path(f"/proc/{pid}/maps").read_text()
    }
    assert mapped == {"Worker_TP0", "Worker_TP1"}
    size = region.stat().st_size
    wanted = running.settings.kv_ram_gib * 2**30
    record("tp2", region_bytes=size, wanted_bytes=wanted)
    assert 0.9 * wanted < size <= wanted


def both_ranks_are_in_the_files() -> None:
    """Each chunk holds a half from each rank, and the halves differ: so do their heads."""
    files = tiers.files(FINGERPRINT)
    assert files
    halves = 0
    for path in files[:20]:
        content = path.read_bytes()
        first, second = content[: len(content) // 2], content[len(content) // 2 :]
        halves += any(first) and any(second) and first != second
    record("tp2", ssd_files=len(files), file_bytes=files[0].stat().st_size, files_of_two=halves)
    assert halves == min(20, len(files))


def test_the_cost_of_no_peer_to_peer(full_model: Path) -> None:
    """Two servers on the same GPUs, asked in turn: NCCL's P2P off, as WSL2 needs it, and on."""
    with ExitStack() as both:
        running = {
            name: both.enter_context(
                server.start(
                    full_model,
                    name=f"p2p-{name}",
                    fingerprint=f"p2p-{name}",
                    environment={"NCCL_P2P_DISABLE": disabled},
                    gpu_memory_utilization=0.4,
                    kv_ssd_gb=0,
                )
            )
            for name, disabled in (("off", "1"), ("on", "0"))
        }
        for each in running.values():
            speed(each, 16, seed=0)
        for count in (1, 8, 16):
            times: dict[str, list[tuple[float, float]]] = {"off": [], "on": []}
            for turn in range(3):
                for name, each in running.items():
                    times[name].append(speed(each, count, seed=1000 * count + 10 * turn))
            for index, what in enumerate(("prefill", "token")):
                off, on = (median(t[index] for t in times[name]) for name in ("off", "on"))
                record(
                    f"P2P off / on, {count} at once",
                    **{f"{what}_off_ms": 1000 * off, f"{what}_on_ms": 1000 * on},
                    **{f"{what}_ratio": off / on},
                )
        running["on"].end()
        end = ends.killed(running["off"], "EngineCore", "tp2 SIGKILL of the engine")
    assert end["exit_status"] == 0


def speed(running: Server, count: int, seed: int) -> tuple[float, float]:
    """Seconds of prefill (until the last first token) and per token, `count` prompts at once."""
    prompts = [server.document(seed + n, 2000) for n in range(count)]
    replies = running.together(prompts, 64, salt=str(seed))
    per_token = [(r.total_s - r.first_s) / (len(r.token_ids) - 1) for r in replies]
    return max(r.first_s for r in replies), median(per_token)
