"""The same load for hours: what each round of it measured, and the memory that it found."""

import re
import time
from collections.abc import Callable
from typing import Any

from hostkit.host import gpus, memory, units
from hostkit.host.process import Failure

Round = Callable[[int], dict[str, Any]]


def carry_out(seconds: float, one: Round, say: Callable[[str], None]) -> dict[str, Any]:
    """Repeat a round, given its number, until the time is over; at least two of them.

    Returns a row whose samples say what each round measured.
    """
    began = time.monotonic()
    samples: list[dict[str, Any]] = []
    while time.monotonic() < began + seconds or len(samples) < 2:
        measured = one(len(samples) + 1)
        sample = {
            "at_s": round(time.monotonic() - began, 1),
            "failed": measured["failed"],
            "error": measured["error"],
            **measured["figures"],
            **memory_now(),
        }
        samples.append(sample)
        say(f"{sample['at_s'] / 3600:.2f} of {seconds / 3600:g} h: {_told(sample)}")
    return {
        "figures": {},
        "completed": 0,
        "failed": sum(sample["failed"] for sample in samples),
        "error": next((sample["error"] for sample in samples if sample["error"]), ""),
        "samples": samples,
    }


def memory_now() -> dict[str, int]:
    """MiB that the server's processes hold, that the host has left, and that all GPUs hold."""
    reader = memory.Reader()
    found = {"server_mib": _resident_mib(), "available_mib": reader.sample().available}
    reader.close()
    try:
        read = gpus.read()
    except Failure:
        return found
    used = [g.total_mib - g.free_mib for g in read if g.total_mib and g.free_mib is not None]
    return found | {"gpu_mib": sum(used)}


def _resident_mib() -> int:
    total = 0
    for pid in units.processes_of():
        try:
            status = (units.PROC / str(pid) / "status").read_text("utf-8", "replace")
        except OSError:
            continue
        match = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
        total += int(match[1]) if match else 0
    return total // 1024


def _told(sample: dict[str, Any]) -> str:
    parts = [f"{sample.get('answer_tokens_per_s', 0):.1f} tokens/s"]
    parts.append(f"server {sample['server_mib']:,} MiB")
    if sample["failed"]:
        parts.append(f"{sample['failed']} requests failed: {sample['error']}")
    return ", ".join(parts)
