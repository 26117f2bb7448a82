"""Everything that tells a healthy host from one that is not, as JSON. Looks only.

It judges nothing: tasks/shared/health/ does, on the control machine. A question that cannot be
answered is named under `errors` with the reason, and keeps none of the others from being asked.
"""

import hashlib
import json
import math
import pwd
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostkit.generation import generations, proofs, start, starts
from hostkit.health import failures, hang, state, support
from hostkit.host import good, lock, paths, sweep, units
from hostkit.host.process import Failure
from hostkit.kv import prune
from hostkit.metrics import figures
from hostkit.model import weights
from hostkit.release.wheel import sha256
from hostkit.serving import goodstart, running

_SHOWN = {
    "active": "ActiveState",
    "enabled": "UnitFileState",
    "needs_reload": "NeedDaemonReload",
    "drop_ins": "DropInPaths",
    "result": "Result",
}
_METRICS = (
    "vllm:kv_offload_",
    "vllm:external_prefix_cache_",
    "vllm:prefix_cache_",
    "vllm:prompt_tokens_total",
)


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("doctor", help="everything about this host, as JSON")
    parser.add_argument("--archive", action="store_true", help="a tar archive of texts instead")
    parser.set_defaults(run=lambda args: _archive() if args.archive else _print())


def _print() -> int:
    print(json.dumps(report()))
    return 0


def _archive() -> int:
    support.write(sys.stdout.buffer)
    return 0


def report() -> dict[str, Any]:
    """The answers by question. Keys are read by tasks/shared/facts/doctor.py."""
    number = _number()
    found: dict[str, Any] = {"generation": number}
    errors: dict[str, str] = {}
    for name, question in {**_of_host(), **(_of_generation(number) if number else {})}.items():
        try:
            found[name] = question()
        except (Failure, OSError, ValueError, KeyError, TypeError) as error:
            errors[name] = str(error) or type(error).__name__
    return {**found, "errors": errors}


def _number() -> int | None:
    """The generation that runs; where none does, the one that a start would use."""
    pid = int(units.show("MainPID")["MainPID"] or 0)
    found = start.running_generation(pid) if pid else None
    return found if found is not None else generations.linked(paths.CURRENT)


def _of_host() -> dict[str, Callable[[], Any]]:
    return {
        "state": state.state,
        "units": _units,
        "files": _files,
        "hostkit": _hostkit,
        "up_s": lambda: float(Path("/proc/uptime").read_text().split()[0]),
        "kept": _kept,
        "left_lock": lambda: str(lock.left() or ""),
        "hang_told": _hang_told,
        "good": good.last,
        "versions": good.versions,
        "shm": sweep.leftovers,
        "orphans": running.orphans,
        "tier": _tier,
        "names": support.names,
    }


def _of_generation(number: int) -> dict[str, Callable[[], Any]]:
    questions: dict[str, Callable[[], Any]] = {
        "note": lambda: generations.note(number),
        "edited": lambda: running.edited(number),
        "release": lambda: running.release(number),
        "model": lambda: _model(number),
        "starts": lambda: _starts(number),
    }
    if units.show("ActiveState")["ActiveState"] == "active":
        questions |= {
            "process": lambda: running.process(number),
            "version": running.version,
            "metrics": lambda: running.metrics(_METRICS),
            "log": lambda: _log(number),
        }
    return questions


def _units() -> dict[str, dict[str, str]]:
    return {name: _unit(name) for name in paths.UNITS}


def _unit(name: str) -> dict[str, str]:
    shown = units.show(*_SHOWN.values(), unit=name)
    found = {key: shown[asked] for key, asked in _SHOWN.items()}
    return {**found, "sha256": _sha256(paths.UNIT_FILE.parent / name)}


def _files() -> dict[str, dict[str, str]]:
    """Files of ours outside of releases and generations: content, owner, who may read them."""
    found = {}
    for path in (*paths.SECRETS, prune.LIMITS):
        if path.is_file():
            info = path.stat()
            found[str(path)] = {
                "owner": _user(info.st_uid),
                "mode": f"{stat.S_IMODE(info.st_mode):o}",
                # Of a secret not even that is told.
                "sha256": "" if path in paths.SECRETS else _sha256(path),
            }
    return found


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _sha256(path: Path) -> str:
    return sha256(path) if path.is_file() else ""


def _hostkit() -> str:
    """The same as tasks/shared/trees.py makes of the program here and there."""
    texts = {
        str(path.relative_to(paths.HOSTKIT)): path.read_text("utf-8")
        for path in sorted(paths.HOSTKIT.glob("**/*.py"))
    }
    content = "".join(f"{path}\0{text}\0" for path, text in sorted(texts.items()))
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _kept() -> list[dict[str, Any]]:
    """The failures on the disk, in short."""
    keys = ("number", "at", "class", "what", "remedy", "cause")
    return [
        {key: each[key] for key in keys} | {"count": 1 + len(each["later"])}
        for each in failures.all_kept()
    ]


def _hang_told() -> bool:
    try:
        told = json.loads(hang.STATE.read_text())
    except (OSError, ValueError):
        return False
    same = told.get("invocation") == units.show("InvocationID")["InvocationID"]
    return bool(told.get("told")) and same


def _tier() -> dict[str, Any]:
    """What the last prune found, and what the time is now, to tell how long ago that was."""
    return {"now": time.time(), "figures": figures.read("kv_tier")}


def _model(number: int) -> dict[str, Any]:
    note = generations.note(number)
    folder = Path(note["model_dir"])
    with weights.as_service_user():
        problems = weights.problems(folder)
        stated = note.get("weights")
        same = problems or not stated or weights.identity(folder) == stated
    return {"folder": str(folder), "problems": problems, "same": bool(same)}


def _starts(number: int) -> dict[str, Any]:
    """The starts in the window of the start limit; those before a start by hand do not count."""
    limit = generations.note(number).get("start_limit") or {}
    slowest = starts.slowest_s()
    window = starts.window_s(limit, slowest) if limit else math.nan
    now = time.monotonic()
    return {
        "ago_s": [round(now - each) for each in starts.times()],
        "burst": limit.get("burst"),
        "window_s": None if not limit else window,
        "slowest_s": slowest,
        "unreachable": _refusal(lambda: starts.check_reachable(limit)),
    }


def _refusal(check: Callable[[], None]) -> str:
    try:
        check()
    except Failure as failure:
        return str(failure)
    return ""


def _log(number: int) -> dict[str, Any]:
    """What the running server's log says of its start: proofs, and KV pool and backend compared.

    Nothing when the journal has lost the beginning of this start.
    """
    lines = units.journal(units.show("InvocationID")["InvocationID"])
    if not any(line.startswith("hostkit: generation ") for line in lines):
        return {"complete": False}
    before = goodstart.of_generation(number)
    now = goodstart.of(lines, 0.0)
    warnings, problems = goodstart.compare(now, before, 10) if before else ([], [])
    expected = generations.note(number).get("proofs", [])
    return {
        "complete": True,
        "unproven": proofs.missing(expected, lines),
        "start": goodstart.describe(now),
        "warnings": warnings,
        "problems": problems,
    }
