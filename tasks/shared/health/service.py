"""The server as systemd has it: does it answer, would it come back, what has failed before?"""

import datetime
from collections.abc import Iterator

from tasks.shared.facts.doctor import Report, StartsReport, UnitReport
from tasks.shared.facts.hostkit import HostState
from tasks.shared.health.wanted import HOSTKIT, Wanted
from tasks.shared.host_checks.findings import Finding, ok, problem, warning

UNIT = "vllm.service"
RESTART = "tasks/restart_vllm.py"


def judge(report: Report, _wanted: Wanted) -> Iterator[Finding]:
    """Server, unit, starts, failures, and what changed under it since it last came up well."""
    if report.state is not None:
        yield from _server(report.state)
        yield from _lock(report.state, report.left_lock)
        yield from _unit(report.state, report.units.get(UNIT, UnitReport()))
        yield from _failure(report.state, report)
    if report.hang_told:
        yield problem(
            "progress",
            "requests are under way, and nothing has moved for longer than hang_after_s",
            "progress",
            f"{RESTART} --data force=yes; hang_restart = True does so by itself",
        )
    if report.starts is not None:
        yield from _starts(report.starts)
    yield from _versions(report)


def _server(state: HostState) -> Iterator[Finding]:
    if state.active != "active":
        yield problem(
            "server",
            f"{UNIT} is {state.active} ({state.sub})",
            "active, and answering",
            "deploy.py starts a host that serves nothing; a failure that is kept says why it ended",
        )
    elif not state.answering:
        yield problem(
            "server",
            f"runs, and does not answer (generation {state.serving})",
            "an answer",
            "journalctl -u vllm -f shows whether it still starts; tasks/verify.py waits for it",
        )
    else:
        yield ok("server", f"generation {state.running} answers")
    if state.current is None:
        yield problem("current", "names no generation", "one that is whole", "deploy.py")
    elif state.running is not None and state.running != state.current:
        yield problem(
            "current",
            f"generation {state.running} runs, and the next start would be of {state.current}",
            "the same",
            f"{RESTART} brings what the settings ask for into service and makes it the current one",
        )


def _lock(state: HostState, left: str) -> Iterator[Finding]:
    if state.lock:
        yield warning(
            "a run",
            state.lock,
            "nobody at work",
            "what is found besides may be its doing: look again when it has ended",
        )
    elif left:
        yield problem(
            "a run",
            f"was killed half-way: {left}",
            "an end",
            "the next deploy.py or restart tidies up after it: sudo systemctl start vllm-settle",
        )


def _unit(state: HostState, unit: UnitReport) -> Iterator[Finding]:
    in_force = state.unit_in_force and unit.needs_reload != "yes"
    if not in_force:
        yield problem(
            "unit",
            f"the {UNIT} that systemd works with is not that of generation {state.current}",
            "that one, unchanged",
            "deploy.py puts it back; a value of your own belongs into the settings",
        )
    own = [path for path in unit.drop_ins.split() if f"/{UNIT}.d/" in path]
    if own and not state.lock:
        yield problem(
            "unit",
            f"drop-ins change it: {', '.join(own)}",
            "none",
            f"remove them (sudo systemctl revert {UNIT} does for those below /etc), then deploy.py",
        )
    if unit.enabled not in ("enabled", ""):
        yield problem(
            "unit", f"{UNIT} is {unit.enabled}", "enabled: started at boot", "deploy.py enables it"
        )
    elif in_force and not own:
        yield ok("unit", "is the current generation's, and enabled")


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _starts(starts: StartsReport) -> Iterator[Finding]:
    if starts.unreachable:
        yield problem(
            "start limit",
            starts.unreachable.partition("; set ")[0],
            "a limit that ends a failing server's starts",
            f"set {starts.unreachable.partition('; set ')[2]}, deploy.py, then {RESTART}",
        )
    if starts.burst is None or starts.window_s is None:
        return
    within = [each for each in starts.ago_s if each <= starts.window_s]
    automatic, left = len(starts.ago_s) - 1, max(0, starts.burst - len(within))
    found = (
        f"{len(within)} of {starts.burst} in {_span(starts.window_s)}, "
        f"{max(automatic, 0)} of them by systemd alone"
    )
    if automatic > 0 and not left:
        yield problem(
            "starts",
            f"{found}: after the next failure it stays down",
            "one left",
            f"cure what made it fail (the failure that is kept), then {RESTART} counts anew",
        )
    elif automatic > 0 and within:
        yield warning(
            "starts", found, "none by systemd alone", "it has failed: see the failure that is kept"
        )
    else:
        yield ok("starts", found)


def _failure(state: HostState, report: Report) -> Iterator[Finding]:
    failure = state.failure
    if failure is None:
        newest = report.kept[-1] if report.kept else None
        seen = f", the newest of {_day(newest.at)}: {newest.kind}" if newest else ""
        yield ok("failures", f"none unseen; {len(report.kept)} kept{seen}")
        return
    often = f", {failure.count} times" if failure.count > 1 else ""
    found = f"{_day(failure.at)}{often}: {failure.what} ({failure.kind}): {failure.cause}"
    remedy = f"{failure.remedy}; kept in {failure.folder}; then: {HOSTKIT} failures --seen"
    if failure.recovered:
        yield warning("failures", f"{found}; it has served since", "seen", remedy)
    else:
        yield problem("failures", f"{found}; it has not served since", "none", remedy)


def _day(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


_WHAT = {"kernel": "kernel", "wsl": "WSL", "driver": "GPU driver"}


def _versions(report: Report) -> Iterator[Finding]:
    """What Windows or an update changed under the server since it last came up well."""
    then = report.good.get("versions") or {}
    for name, now in report.versions.items():
        before = then.get(name, now)
        what = _WHAT.get(name, name)
        if before != now:
            yield warning(
                what,
                f"{now}; {before} at the last good start",
                "the same, or one start that went well with it",
                f"{RESTART} tries it while you watch, before a crash does",
            )
        elif now not in ("none", "unknown"):
            yield ok(what, f"{now}, as at the last good start" if name in then else now)
