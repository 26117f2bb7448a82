"""Long work as transient units: it survives the loss of SSH, and a second start attaches to it.

The outcome is written by the unit's ExecStopPost: after --collect `systemctl show` of a failed unit
says success.
"""

import argparse
import contextlib
import json
import os
import re
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hostkit.host import environment, memory, paths, units
from hostkit.host.process import Failure, run, write_atomic

JOBS = paths.RUN / "jobs"
RUNTIME_MAX_S = 24 * 3600

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
_PYTHON = "/usr/bin/python3"
# What systemd and pyinfra's sudo would not hand on, and a download behind a proxy needs.
_PASSED_ON = re.compile(r"(https?|all|no)_proxy|(PIP|UV)_\w+|SSL_CERT_(FILE|DIR)", re.IGNORECASE)


_WATCHERS = ("verify", "switch", "adopt")
_SWITCHING = ("switch", "load-test")
"""What may end with a switch half-done."""
KEPT_LINES = 200
"""How many lines a job's progress keeps for whoever attaches to it later."""
_WATCHER = {"OOMScoreAdjust": "-900"}
# A client that waits for the processor would measure that.
_CLIENT = {"OOMScoreAdjust": "1000"}
_WORKER = {"OOMScoreAdjust": "1000", "Nice": "10", "CPUWeight": "20", "IOWeight": "10"}


def progress(text: str) -> None:
    """Say what is being done now; inside a job `job status` shows it as well."""
    print(text, flush=True)
    name = os.environ.get("HOSTKIT_JOB")
    if name:
        file = _file(name, "progress")
        told = _read(file)
        if not isinstance(told, dict) or "started" not in told:
            told = {"started": time.monotonic()}
        lines = [*told.get("lines", []), [round(time.monotonic() - told["started"], 1), text]]
        dropped = told.get("dropped", 0) + max(0, len(lines) - KEPT_LINES)
        # A disk that is full is no reason to stop half-way.
        with contextlib.suppress(OSError):
            _write(file, told | {"text": text, "lines": lines[-KEPT_LINES:], "dropped": dropped})


def tell_error(text: str) -> None:
    """Inside a job: leave why it fails where `record` finds it should there be no journal."""
    name = os.environ.get("HOSTKIT_JOB")
    if name:
        file = _file(name, "progress")
        with contextlib.suppress(OSError):
            _write(file, (_read(file) or {}) | {"error": text})


def start(name: str, arguments: Sequence[str], runtime_max_s: int = RUNTIME_MAX_S) -> bool:
    """Start `hostkit ARGUMENTS` as the job `name`; False when that job runs already."""
    if not _NAME.fullmatch(name):
        raise Failure(f"job {name!r}: expected lower-case letters, digits, dots and dashes")
    if _is_active(name):
        return False
    _file(name, "json").unlink(missing_ok=True)
    _write(_file(name, "progress"), {"started": time.monotonic(), "text": "starting"})
    try:
        told = environment.write(_file(name, "env"), passed_on(os.environ))
        run(command(name, arguments, runtime_max_s, told), f"job {name}")
    except Failure:
        if _is_active(name):
            return False
        _file(name, "progress").unlink(missing_ok=True)
        raise
    return True


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """What of an environment a job gets: an address in it may have a password."""
    return {key: value for key, value in environ.items() if _PASSED_ON.fullmatch(key)}


def command(name: str, arguments: Sequence[str], runtime_max_s: int, *options: str) -> list[str]:
    """The systemd-run command line of a job, with more options of systemd-run.

    Work stands behind everything else in processor and disk, and is the first to go when memory
    runs out; who watches a start must outlive what it watches; who measures must not be slowed.
    """
    hostkit = [_PYTHON, "-IB", str(paths.HOSTKIT)]
    what = arguments[0] if arguments else ""
    properties = {
        "Type": "exec",
        **_treatment(what),
        "RuntimeMaxSec": str(runtime_max_s),
        # A switch that is killed is put right before its unit ends.
        "TimeoutStopSec": "300" if what in _SWITCHING else "30",
        "KillMode": "mixed",
    }
    afterwards = [[*hostkit, "job", "record", name]]
    if what in _SWITCHING:
        # First: what it says is the last thing that a job which was killed is known by.
        afterwards.insert(0, [*hostkit, "settle"])
    return [
        "systemd-run",
        "--quiet",
        "--collect",
        f"--unit={_unit(name)}",
        f"--description=hostkit {name}",
        *(f"--property={key}={value}" for key, value in properties.items()),
        *(f"--property=ExecStopPost={' '.join(words)}" for words in afterwards),
        f"--setenv=HOSTKIT_JOB={name}",
        "--setenv=MAX_JOBS=1",
        *options,
        "--",
        *hostkit,
        *arguments,
    ]


def _treatment(what: str) -> dict[str, str]:
    if what in _WATCHERS:
        return _WATCHER
    return (_CLIENT if what == "load-test" else _WORKER) | _bounds()


def _bounds() -> dict[str, str]:
    """All memory but the guard's floor: for the kernel to enforce, where it is let."""
    reader = memory.Reader()
    sample = reader.sample()
    reader.close()
    room = sample.available - memory.default_floor(sample.total)
    return {"MemoryMax": f"{max(room, 1024)}M"}


def record(name: str, environ: Mapping[str, str]) -> None:
    """Write down how the job ended; ExecStopPost calls this with systemd's variables."""
    units.sync_journal()
    result = environ.get("SERVICE_RESULT", "unknown")
    lines = units.journal(environ["INVOCATION_ID"]) if "INVOCATION_ID" in environ else []
    if not lines:
        lines = [(_read(_file(name, "progress")) or {}).get("error", "")]
    _write(
        _file(name, "json"),
        {
            "result": result,
            "exit_status": environ.get("EXIT_STATUS", ""),
            "error": "" if result == "success" else last_error(lines, result),
            "ended": time.monotonic(),
        },
    )


def last_error(lines: Sequence[str], result: str) -> str:
    """The line that tells why a job failed: hostkit's own last one, or the last there is."""
    said = [line.strip() for line in lines if line.strip()]
    errors = [line.removeprefix("hostkit: ") for line in said if line.startswith("hostkit: ")]
    if result in ("timeout", "oom-kill", "signal", "core-dump") or not said:
        return f"ended by {result}" + (f" after: {said[-1]}" if said else "")
    return (errors or said)[-1]


def status(name: str, after: int = 0) -> dict[str, Any]:
    """The state of a job as plain data, for JSON; of its progress what follows `after` lines."""
    # Asked first: what a job says and leaves before it ends is then read after that.
    running = _is_active(name)
    told = _read(_file(name, "progress"))
    return describe(name, running, _read(_file(name, "json")), told, time.monotonic()) | {
        "lines": lines_after(told, after)
    }


def lines_after(told: Mapping[str, Any] | None, after: int) -> list[list[Any]]:
    """Pairs of elapsed seconds and text, but for the first `after` of all that were said."""
    told = told or {}
    lines: list[list[Any]] = told.get("lines", [])
    return lines[max(0, after - told.get("dropped", 0)) :]


def describe(
    name: str,
    running: bool,
    result: Mapping[str, Any] | None,
    told: Mapping[str, Any] | None,
    now: float,
) -> dict[str, Any]:
    """Put together what is known of a job; `now` and the times in it are of the monotonic clock.

    A job that neither runs nor left a result, but had begun, has failed.
    """
    found = result or {}
    if running:
        state, end = "running", now
    elif result is not None:
        state = "succeeded" if found.get("result") == "success" else "failed"
        end = found.get("ended", now)
    else:
        state, end = ("failed" if told else "absent"), now
    error = found.get("error", "")
    if state == "failed" and result is None:
        error = "ended without a result: the job was killed together with its record"
    return {
        "name": name,
        "state": state,
        "progress": (told or {}).get("text", ""),
        "elapsed_s": round(end - told["started"], 1) if told and "started" in told else 0.0,
        "result": "" if running else found.get("result", ""),
        "exit_status": "" if running else found.get("exit_status", ""),
        "error": "" if running else error,
    }


def register(subparsers: Any) -> None:
    """Add `job start|status|record`."""
    jobs = subparsers.add_parser("job", help="long work in the background").add_subparsers(
        required=True, metavar="ACTION"
    )
    parser = jobs.add_parser("start", help="start hostkit ARG… as a job, or attach to it")
    parser.add_argument("--runtime-max-s", type=int, default=RUNTIME_MAX_S)
    parser.add_argument("name")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARG")
    parser.set_defaults(run=_start_command)
    parser = jobs.add_parser("status", help="one line of JSON; exit status 0 always")
    parser.add_argument("name")
    parser.add_argument("--after", type=int, default=0, help="lines of progress known already")
    parser.set_defaults(run=_status_command)
    parser = jobs.add_parser("record", help="for the job's unit: write down how it ended")
    parser.add_argument("name")
    parser.set_defaults(run=_record_command)


def _start_command(args: Namespace) -> int:
    arguments = [each for index, each in enumerate(args.arguments) if index or each != "--"]
    started = start(args.name, arguments, args.runtime_max_s)
    print(f"job {args.name}: {'started' if started else 'attached, it runs already'}")
    return 0


def _status_command(args: Namespace) -> int:
    print(json.dumps(status(args.name, args.after)))
    return 0


def _record_command(args: Namespace) -> int:
    record(args.name, os.environ)
    return 0


def _is_active(name: str) -> bool:
    state = units.ask("ActiveState", unit=_unit(name))["ActiveState"]
    return state in ("active", "activating", "deactivating", "reloading")


def _unit(name: str) -> str:
    return f"vllm-job-{name}.service"


def _file(name: str, suffix: str) -> Path:
    return JOBS / f"{name}.{suffix}"


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _write(file: Path, content: Mapping[str, Any]) -> None:
    write_atomic(file, json.dumps(content) + "\n")
