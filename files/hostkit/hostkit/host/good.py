"""What the host was like when a server last answered: what a later failure is compared with."""

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from hostkit.host import gpus, mounts, paths
from hostkit.host.process import Failure, run, write_atomic

FILE = paths.HEALTH / "good.json"
_WSLINFO = "/usr/bin/wslinfo"


def mark(invocation: str, generation: int, kv_dir: str | None = None) -> None:
    """Note that the server of this invocation has answered; the first time counts.

    A disk that is full then takes the note, and not the server.
    """
    if not invocation or last().get("invocation") == invocation:
        return
    found = {
        "invocation": invocation,
        "generation": generation,
        "at": time.time(),
        "versions": versions(),
        "kv_dir": kv_dir,
        "kv_mount": mounts.of(Path(kv_dir)).point if kv_dir else None,
    }
    try:
        write_atomic(FILE, json.dumps(found, indent=2) + "\n")
    except OSError as error:
        print(f"hostkit: cannot keep what this start was like: {error}", file=sys.stderr)


def last() -> dict[str, Any]:
    """The last such note; empty when no server has answered yet."""
    try:
        found = json.loads(FILE.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def versions() -> dict[str, str]:
    """What Windows updates change under a server: its driver, WSL, the kernel."""
    return {"kernel": os.uname().release, "wsl": _wsl(), "driver": _driver()}


def _wsl() -> str:
    if not Path(_WSLINFO).exists():
        return "none"
    try:
        return run([_WSLINFO, "--version"], "wslinfo", timeout_s=10).strip() or "unknown"
    except Failure:
        return "unknown"


def _driver() -> str:
    try:
        said = gpus.smi("--query-gpu=driver_version", "--format=csv,noheader")
    except Failure:
        return "unknown"
    return next(iter(re.findall(r"\S+", said)), "unknown")
