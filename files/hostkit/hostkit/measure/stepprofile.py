"""What a step of the engine spends its time on, read from vLLM's torch profiler.

The server must have been started with a profiler: a generation of its own, on trial.
"""

import gzip
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hostkit.host.process import Failure
from hostkit.measure import streaming
from hostkit.serving import server

WAIT_S = 300.0
"""A trace is written when the profiler stops; large ones take a while."""
SHOWN = 5

_COMMUNICATION = re.compile(r"nccl|all_?reduce|all_?gather|reduce_?scatter|c10d::", re.IGNORECASE)
_STEP = re.compile(r"^execute_")

Event = Mapping[str, Any]


def carry_out(found: server.Server, texts: Sequence[str], answer: int, folder: Path) -> Any:
    """Profile the server while it answers all texts at once; a row of the result."""
    if folder.is_dir():
        for entry in folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    server.post(found, "/start_profile")
    try:
        with ThreadPoolExecutor(len(texts)) as pool:
            list(pool.map(lambda text: streaming.ask(found, text, answer), texts))
    finally:
        server.post(found, "/stop_profile", timeout_s=WAIT_S)
    shares = [share(events) for events in map(read, traces(folder))]
    slowest = max(shares, key=lambda each: float(each["figures"]["step_ms"]))
    return {**slowest, "completed": len(texts), "failed": 0, "error": "", "ranks": len(shares)}


def traces(folder: Path) -> list[Path]:
    """The traces of all ranks, once nothing is written to them any more."""
    ends = time.monotonic() + WAIT_S
    sizes: dict[Path, int] = {}
    while time.monotonic() < ends:
        now = {path: path.stat().st_size for path in folder.glob("*.trace.json*")}
        if now and now == sizes:
            return sorted(now)
        sizes = now
        time.sleep(2)
    raise Failure(f"vLLM's profiler wrote nothing to {folder} within {WAIT_S:.0f} s")


def read(path: Path) -> list[Event]:
    """The events of a trace that last."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        found = json.load(file)
    return [event for event in found["traceEvents"] if event.get("ph") == "X"]


def share(events: Iterable[Event]) -> dict[str, Any]:
    """Milliseconds that a step keeps the GPU busy, and the share of communication in percent.

    Without a GPU it is the processor's operations that count. What overlaps counts once.
    """
    events = list(events)
    work = [event for event in events if event.get("cat") == "kernel"]
    work = work or [event for event in events if event.get("cat") == "cpu_op"]
    marks = [each for each in events if _STEP.match(str(each.get("name")))]
    steps = len({each["ts"] for each in marks if each.get("cat") == "user_annotation"})
    if not work or not steps:
        raise Failure("vLLM's profiler recorded no step: was the server given anything to do?")
    communication = [event for event in work if _COMMUNICATION.search(event["name"])]
    busy, talking = _covered(work), _covered(communication)
    longest: Counter[str] = Counter()
    for event in work:
        longest[event["name"][:60]] += event["dur"]
    step_ms, percent = busy / steps / 1000, 100 * talking / busy
    named = [f"{name} {100 * took / busy:.0f} %" for name, took in longest.most_common(SHOWN)]
    return {
        "figures": {"step_ms": round(step_ms, 3), "communication_percent": round(percent, 1)},
        "note": f"{steps} steps, {step_ms:.2f} ms each, {percent:.1f} % of it communication; "
        f"longest: {', '.join(named)}",
    }


def _covered(events: Iterable[Event]) -> float:
    """Microseconds in which at least one of the events goes on."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted((event["ts"], event["ts"] + event["dur"]) for event in events):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
