"""Keeps the SSD tier within its quota: vLLM itself never removes a file of it.

The running server may read and write meanwhile. A block that goes between its look-up and its load
is a miss for it: the request computes that part again.
"""

import fcntl
import os
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostkit.generation import generations
from hostkit.host import paths, process, units, windowsdisk
from hostkit.host.process import Failure
from hostkit.kv import blocks, quota
from hostkit.kv.blocks import Judge, Tally, Walk
from hostkit.kv.quota import Cut
from hostkit.metrics import figures
from hostkit.metrics.figures import Figure

LIMITS = paths.ETC / "kv-tier.json"
MARKER = ".vllm-kv-tier"
# systemd ends what runs before a start after 90 s, and counts it as a failed start.
BEFORE_START_S = 20
_DAY = 86400
_NEVER = float("-inf")

LRU = "least recently used first"
FIFO = "oldest first (FIFO: this vLLM leaves no trace of a use)"


@dataclass(frozen=True)
class Tier:
    """The folder, and its limits in bytes, as the deploy wrote them down."""

    folder: Path
    quota: int
    min_free: int


@dataclass(frozen=True)
class Outcome:
    """What one run found and removed; sizes in bytes, `order` in words."""

    tier: Tier
    tally: Tally
    unused_bytes: int
    free: int
    order: str
    seconds: float


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("prune", help="keep the SSD tier within its quota (timer)")
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
    parser.set_defaults(run=_command)


def _command(args: Namespace) -> int:
    now = time.time()
    # No server that writes: whatever is half written by now stays so.
    before = now - _DAY if units.processes_of() else now
    for line in prune(before, dry_run=args.dry_run):
        print(f"hostkit: {line}", flush=True)
    return 0


def before_start() -> None:
    """Part of what the unit does before a start. Never a reason not to start."""
    try:
        lines = prune(time.time(), until=time.monotonic() + BEFORE_START_S)
    except (Failure, OSError, ValueError) as error:
        lines = [f"SSD tier: not pruned before this start: {error}"]
    for line in lines:
        print(f"hostkit: {line}", flush=True)


def prune(
    temporary_before: float, *, dry_run: bool = False, until: float = float("inf")
) -> list[str]:
    """Remove what is over the limits; what there is to say about it.

    Temporary files last written before `temporary_before` go in any case.
    """
    tier = _tier()
    if tier is None:
        return ["SSD tier: there is none: kv_ssd_gb is 0"]
    try:
        root = os.open(tier.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return [f"SSD tier: {tier.folder} is not there: nothing to do"]
    except NotADirectoryError:
        raise Failure(f"SSD tier: {tier.folder} is a link or no folder: set kv_ssd_dir") from None
    try:
        _require_marker(root, tier.folder)
        try:
            fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ["SSD tier: another prune is at work"]
        outcome = _pruned(root, tier, temporary_before, dry_run=dry_run, until=until)
    finally:
        os.close(root)
    if not dry_run:
        figures.write("kv_tier", _figures(outcome))
    return _said(outcome, dry_run=dry_run)


def _tier() -> Tier | None:
    if not LIMITS.is_file():
        return None
    found = process.read_json(LIMITS)
    try:
        return Tier(Path(found["folder"]), int(found["quota_bytes"]), int(found["min_free_bytes"]))
    except (KeyError, TypeError, ValueError):
        raise Failure(f"{LIMITS} is damaged: deploy again") from None


def _require_marker(root: int, folder: Path) -> None:
    try:
        os.stat(MARKER, dir_fd=root, follow_symlinks=False)
    except FileNotFoundError:
        raise Failure(
            f"SSD tier: {folder} has no {MARKER}, so nothing is removed there: is its disk "
            "mounted? Else deploy again"
        ) from None


def _pruned(
    root: int, tier: Tier, temporary_before: float, *, dry_run: bool, until: float
) -> Outcome:
    began = time.monotonic()
    oldest = blocks.Oldest()
    names = blocks.fingerprints(root)
    first = Walk(root, Judge(temporary_before), oldest, remove=not dry_run, until=until)
    found = {name: first.through(name) for name in names}
    used = _in_use(names)
    unused = [name for name in names if name not in used]
    total = sum(tally.bytes for tally in found.values())
    need = quota.excess(total, _free(root), quota=tier.quota, min_free=tier.min_free)
    cuts = quota.cuts(need, _minutes(found, unused), _minutes(found, used))
    for cut, group in ((cuts[0], unused), (cuts[1], used)):
        judge = Judge(_NEVER, cut.minute, cut.bytes_of_it)
        second = Walk(root, judge, oldest, remove=not dry_run, until=until, again=True)
        for name in group if cut != Cut() else ():
            found[name] = found[name].without(second.through(name), cut.minute)
    return Outcome(
        tier,
        _sum(found.values()),
        unused_bytes=sum(found[name].bytes for name in unused),
        free=_free(root),
        order=_order(),
        seconds=time.monotonic() - began,
    )


def _in_use(names: Iterable[str]) -> list[str]:
    """The fingerprints that a generation names in what its server is told."""
    texts = [
        (generations.folder(number) / "serve.yaml").read_text("utf-8", "replace")
        for number in generations.numbers()
        if (generations.folder(number) / "serve.yaml").is_file()
    ]
    return [name for name in names if any(name in text for text in texts)]


def _minutes(found: dict[str, Tally], names: Iterable[str]) -> Counter[int]:
    return _sum(found[name] for name in names).minutes


def _sum(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


def _free(root: int) -> int:
    """Bytes that the service can still write on the tier's disk."""
    info = os.fstatvfs(root)
    return info.f_bavail * info.f_frsize


def _order() -> str:
    """vLLM leaves no trace of a use unless it is patched to set a file's times when it loads it."""
    pattern = "release/venv/lib/python3*/site-packages/vllm/v1/kv_offload/tiering/fs/io.py"
    sources = [file.read_text("utf-8", "replace") for file in paths.CURRENT.glob(pattern)]
    if any("os.utime(" in source for source in sources):
        return LRU
    return FIFO


def _said(outcome: Outcome, *, dry_run: bool) -> list[str]:
    tally, tier = outcome.tally, outcome.tier
    parts = [f"{tally.removed_blocks} blocks"] if tally.removed_blocks else []
    parts += [f"{tally.removed_temporary} temporary files"] if tally.removed_temporary else []
    what = f"{' and '.join(parts)}, {_gb(tally.removed_bytes)} GB" if parts else "nothing"
    if tally.removed_blocks:
        what += f", {outcome.order}"
    if tally.removed_folders:
        what += f", and {tally.removed_folders} empty folders"
    lines = [
        f"SSD tier: {'would remove' if dry_run else 'removed'} {what}; {_gb(tally.bytes)} GB of "
        f"{_gb(tier.quota)} GB in {tally.files} files stay, {_gb(outcome.unused_bytes)} GB of it "
        f"unused by any generation; {_gb(outcome.free)} GB are free on the disk; "
        f"{outcome.seconds:.1f} s"
    ]
    if outcome.free < tier.min_free and not dry_run:
        lines.append(
            f"SSD tier: {_gb(outcome.free)} GB are free on the disk, less than the "
            f"{_gb(tier.min_free)} GB of kv_min_free_gb, with no block left to give: make room"
        )
    if tally.removed_bytes:
        lines += windowsdisk.does_not_shrink(outcome.tier.folder)
    return lines


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f}"


def _figures(outcome: Outcome) -> list[Figure]:
    tally, tier = outcome.tally, outcome.tier
    oldest = min(tally.minutes, default=0) * blocks.MINUTE
    return [
        Figure("files", "gauge", "Files in the SSD tier.", tally.files),
        Figure("bytes", "gauge", "Size of the SSD tier.", tally.bytes),
        Figure(
            "unused_bytes", "gauge", "Of its size, unused by any generation.", outcome.unused_bytes
        ),
        Figure("quota_bytes", "gauge", "What it may take: kv_ssd_gb.", tier.quota),
        Figure("free_bytes", "gauge", "Free on its disk.", outcome.free),
        Figure("min_free_bytes", "gauge", "What must stay free: kv_min_free_gb.", tier.min_free),
        Figure(
            "oldest_use_timestamp_seconds",
            "gauge",
            "When its oldest block was last used.",
            oldest,
        ),
        Figure(
            "last_prune_timestamp_seconds",
            "gauge",
            "When hostkit last looked at it.",
            int(time.time()),
        ),
        Figure("prune_duration_seconds", "gauge", "How long that took.", round(outcome.seconds, 3)),
        Figure("removed_blocks_total", "counter", "Blocks removed from it.", tally.removed_blocks),
        Figure("removed_bytes_total", "counter", "Their size.", tally.removed_bytes),
    ]
