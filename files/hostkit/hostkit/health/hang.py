"""Tells a server that hangs from one that is idle and from one that is slow.

/health says 200 while the engine is stuck. A hang is: requests are under way, no counter of the
engine's steps has moved for a set time, and a completion of our own does not come either.
"""

import hashlib
import json
import re
import time
from argparse import Namespace
from dataclasses import asdict, dataclass
from typing import Any

from hostkit.health import failures, fingerprints
from hostkit.host import good, paths, units
from hostkit.host.process import write_atomic
from hostkit.serving import server

STATE = paths.RUN / "progress.json"
PROBE_S = 60
_COUNTERS = re.compile(
    # What changes with a step of the engine, the prefill of a single long prompt included.
    r"^vllm:(?:iteration_tokens_total_(?:count|sum)|prompt_tokens_total|generation_tokens_total"
    r"|num_preemptions_total|kv_cache_usage_perc)(?:{[^}]*})? \S+$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Progress:
    """How the counters stood, and since when; times are of the monotonic clock."""

    invocation: str
    counters: str
    since: float
    told: bool = False


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("watch-progress", help="does the server hang? (timer)")
    parser.add_argument("--after", type=float, required=True, help="seconds without any progress")
    parser.add_argument("--restart", action="store_true", help="end a server that hangs")
    parser.set_defaults(run=watch)


def watch(args: Namespace) -> int:
    """One look. Exit status 0 also for a hang: it is told where failures are told."""
    try:
        found = server.find()
        metrics = server.metrics(found)
        in_flight = max(server.requests_in_flight(found), server.load(found))
    except server.NotAnswering as error:
        # Loading, busy, or gone: each of it is somebody else's to notice.
        print(f"hostkit: cannot tell: {error}")
        return 0
    invocation = units.show("InvocationID")["InvocationID"]
    _mark_good(found, invocation, metrics, args.after)
    before = _read()
    now = step(before, invocation, metrics, in_flight, _now())
    frozen_s = _now() - now.since
    if in_flight and frozen_s >= args.after and not now.told and not _answers(found, args.after):
        _report(invocation, in_flight, frozen_s, restart=args.restart)
        now = Progress(now.invocation, now.counters, now.since, told=True)
    write_atomic(STATE, json.dumps(asdict(now)) + "\n")
    return 0


def _mark_good(found: server.Server, invocation: str, metrics: str, patience_s: float) -> None:
    """Nobody watches a start that systemd makes: it is good once a client, or we, got an answer."""
    if good.last().get("invocation") == invocation:
        return
    if server.total(metrics, "vllm:generation_tokens_total") or _answers(found, patience_s):
        failures.mark_good(invocation, found.generation)


def step(
    before: Progress | None, invocation: str, metrics: str, in_flight: int, now: float
) -> Progress:
    """What is known after a look at the metrics. An idle server's counters stand still by right."""
    digest = hashlib.sha256("\n".join(_COUNTERS.findall(metrics)).encode()).hexdigest()[:16]
    # Different from all others, so that the time is counted from the first look at a busy server.
    counters = digest if in_flight else ""
    if before is None or (before.invocation, before.counters) != (invocation, counters):
        return Progress(invocation, counters, now)
    return before


def _answers(found: server.Server, patience_s: float) -> bool:
    """A client that does not read its answer keeps a request open, too: ask for one of our own."""
    try:
        server.probe(found, timeout_s=min(PROBE_S, patience_s))
    except server.NotAnswering:
        return False
    return True


def _report(invocation: str, in_flight: int, frozen_s: float, *, restart: bool) -> None:
    said = f"{in_flight} requests are under way and nothing has moved for {frozen_s:.0f} s"
    print(f"hostkit: the server hangs: {said}", flush=True)
    failures.record(invocation, said=said, kind=fingerprints.HANG)
    if restart:
        # Not `restart`: a killed server is started by systemd itself, and that counts.
        units.systemctl("kill", "--signal=SIGKILL", paths.UNIT)


def _now() -> float:
    return time.monotonic()


def _read() -> Progress | None:
    try:
        return Progress(**json.loads(STATE.read_text()))
    except (OSError, ValueError, TypeError):
        return None
