"""The first failure after a good state is kept, before later restarts hide it.

A series begins with the first failure since a server last answered; what fails after that, until
one answers again, is only counted in it.
"""

import contextlib
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from hostkit.generation import generations, startlog, starts
from hostkit.health import evidence, fingerprints
from hostkit.health.fingerprints import Kind
from hostkit.host import good, guardlog, jobs, paths, units
from hostkit.host.process import Failure, write_atomic

KEPT = 10
"""Series on the disk; with all that `evidence` gathers each takes a few MiB at most."""
LATER = 50
SHOWN_S = 7 * 24 * 3600
_TOLD = {"at", "invocation", "class", "what", "remedy", "cause", "good_before", "later"}
_SEEN = paths.HEALTH / "seen.json"


def record(
    invocation: str,
    *,
    result: str = "",
    status: str = "",
    said: str = "",
    kind: Kind | None = None,
    lasted_s: float = 0.0,
) -> dict[str, Any]:
    """Keep a failure of one start of the service and return its report; tells whoever is to know.

    `result` and `status` are systemd's ($SERVICE_RESULT, $EXIT_STATUS). Who knows better what it
    was says so in `said` (one line) and `kind`. The second failure of a series is only counted.
    """
    lines = units.journal(invocation)
    before = good.last()
    served = before.get("invocation") == invocation
    if not served and kind is None and not _was_up(invocation):
        starts.record_failed(lasted_s)
    kind = kind or _kind(lines, result, status, lasted_s)
    cause = evidence.redacted(said or startlog.last_error(lines), evidence.known_secrets())
    short = {
        "at": time.time(),
        "invocation": invocation,
        "result": result,
        "status": status,
        "class": kind.name,
        "what": kind.what,
        "remedy": kind.remedy,
        "cause": cause,
        "served": served,
        "lasted_s": round(lasted_s, 1),
    }
    open_series = _open_series()
    if open_series is not None:
        return _count(open_series, short)
    generation = _generation(invocation)
    report: dict[str, Any] = {
        **short,
        "generation": generation,
        "good_before": before.get("invocation"),
        "versions": good.versions(),
        "versions_when_good": before.get("versions"),
        "later": [],
    }
    _keep(report, evidence.gather(invocation, generation))
    _tell()
    return latest() or report


def _kind(lines: list[str], result: str, status: str, lasted_s: float) -> Kind:
    """The class of a failure, by what was written before it and by how systemd says it ended."""
    # systemd's own line about the end may come into the journal later than this.
    marked = [f"{result} {status} (systemd)"]
    kind = fingerprints.classify([*lines, *marked, *_fresh_kernel_lines(lasted_s)])
    unasked = kind == fingerprints.UNKNOWN and result == "success"
    return fingerprints.UNASKED if unasked else kind


def latest() -> dict[str, Any] | None:
    """The report of the newest series, with its `number` and `folder`; None when nothing failed."""
    return next(reversed(all_kept()), None)


def all_kept() -> list[dict[str, Any]]:
    """The reports of all series on the disk, oldest first."""
    return [report for report in map(_read, _folders()) if report is not None]


def to_show() -> dict[str, Any] | None:
    """The newest failure while nobody can have missed it: see `seen`."""
    found = latest()
    if found is None or time.time() - found["at"] > SHOWN_S:
        return None
    with contextlib.suppress(OSError, ValueError):
        if json.loads(_SEEN.read_text()) >= found["number"]:
            return None
    recovered = good.last().get("invocation") != found["good_before"]
    keys = ("number", "at", "class", "what", "remedy", "cause", "folder")
    return {key: found[key] for key in keys} | {
        "recovered": recovered,
        "count": 1 + len(found["later"]),
        "changed": changed_versions(found),
    }


def served(invocation: str, generation: int) -> None:
    """A start that somebody watched has answered: what failed before it is history."""
    mark_good(invocation, generation)
    seen()


def mark_good(invocation: str, generation: int) -> None:
    """The server of this invocation has answered: the next failure begins a new series."""
    good.mark(invocation, generation, generations.note(generation).get("needs", {}).get("kv_dir"))


def seen() -> None:
    """Nobody has to be told any more of the failures up to now, nor of what the guard ended."""
    found = latest()
    if found is not None:
        write_atomic(_SEEN, json.dumps(found["number"]) + "\n")
    guardlog.forget(paths.UNIT)


def changed_versions(report: dict[str, Any]) -> dict[str, str]:
    """What Windows or an update changed between the last good start and this failure."""
    then, now = report.get("versions_when_good") or {}, report.get("versions") or {}
    return {
        name: f"{then[name]} -> {now[name]}"
        for name in then
        if name in now and then[name] != now[name]
    }


def _was_up(invocation: str) -> bool:
    """Did its port open? What fails after that, perhaps hours later, is no failing start."""
    matches = f"_SYSTEMD_INVOCATION_ID={invocation}"
    return bool(units.journalctl("--grep=Application startup complete", "--lines=1", matches))


def _fresh_kernel_lines(lasted_s: float) -> list[str]:
    """The kernel's lines since the start that failed: those of earlier failures say nothing."""
    return units.journalctl("--dmesg", "--lines=500", f"--since=-{int(lasted_s) + 5}s")


def _generation(invocation: str) -> int | None:
    """The generation that was started; by then `current` names it, or did a moment ago."""
    for line in units.journal(invocation):
        if line.startswith("hostkit: generation "):
            word = line.removeprefix("hostkit: generation ").split(",")[0]
            return int(word) if word.isdecimal() else None
    return generations.linked(paths.CURRENT)


def _open_series() -> Path | None:
    """The newest series, unless a server has answered since it began."""
    folders = _folders()
    if not folders:
        return None
    report = _read(folders[-1])
    still_open = report is not None and report["good_before"] == good.last().get("invocation")
    return folders[-1] if still_open else None


def _count(folder: Path, short: dict[str, Any]) -> dict[str, Any]:
    report = _read(folder) or {}
    known = {short["invocation"]} & {
        report["invocation"],
        *(e["invocation"] for e in report["later"]),
    }
    if not known:
        report["later"] = [*report["later"], short][-LATER:]
        _write(folder, report)
    return report


def _keep(report: dict[str, Any], texts: dict[str, str]) -> None:
    """Write a series down: on the disk or, when that is full, in memory until the next boot."""
    number = max((int(folder.name) for folder in _folders()), default=0) + 1
    for place in _places():
        folder = place / str(number)
        try:
            folder.mkdir(parents=True, mode=0o700)
            place.chmod(0o700)
            _write(folder, report)
            for name, text in texts.items():
                write_atomic(folder / name, text, 0o600)
        except OSError as error:
            print(f"hostkit: cannot keep a failure in {folder}: {error.strerror}", file=sys.stderr)
            shutil.rmtree(folder, ignore_errors=True)
            continue
        break
    for old in _folders()[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def _places() -> tuple[Path, Path]:
    return paths.HEALTH / "failures", paths.RUN / "failures"


def _folders() -> list[Path]:
    found = [
        folder
        for place in _places()
        if place.is_dir()
        for folder in place.iterdir()
        if folder.name.isdecimal() and (folder / "report.json").is_file()
    ]
    return sorted(found, key=lambda folder: int(folder.name))


def _read(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / "report.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    # One that a power cut tore, or that is of somebody else, is none.
    if not (isinstance(found, dict) and found.keys() >= _TOLD and isinstance(found["later"], list)):
        return None
    return {**found, "number": int(folder.name), "folder": str(folder)}


def _write(folder: Path, report: dict[str, Any]) -> None:
    kept = {key: value for key, value in report.items() if key not in ("number", "folder")}
    write_atomic(folder / "report.json", json.dumps(kept, indent=2) + "\n", 0o600)


def _tell() -> None:
    """Whoever is to be told is told by a job: a network that is down must not delay a restart."""
    if paths.NOTIFY.is_file():
        with contextlib.suppress(Failure, OSError):
            jobs.start("notify", ["notify"], runtime_max_s=120)


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("failures", help="what has failed, the newest last")
    parser.add_argument("--seen", action="store_true", help="do not show it in the next deploy")
    parser.set_defaults(run=lambda args: _mark_seen() if args.seen else _list())


def _mark_seen() -> int:
    seen()
    return 0


def _list() -> int:
    kept = all_kept()
    if not kept:
        print("no failure is kept")
    for report in kept:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(report["at"]))
        times = 1 + len(report["later"])
        count = "once" if times == 1 else f"{times} times until it served again"
        print(f"{report['number']}  {when}  {report['class']}: {report['what']}, {count}")
        print(f"   {report['cause']}")
        print(f"   to do: {report['remedy']}")
        for name, versions in changed_versions(report).items():
            print(f"   changed since it last served: {name} {versions}")
        print(f"   {report['folder']}")
    print(f"slowest failing start: {starts.slowest_s():.0f} s")
    return 0
