"""Host against repository: what a deploy would change."""

from collections.abc import Iterator

from tasks.shared import templates
from tasks.shared.credentials import KEY
from tasks.shared.engine.kv_tier import LIMITS
from tasks.shared.facts.doctor import Report, UnitReport
from tasks.shared.facts.hostkit import HostState
from tasks.shared.health.wanted import Wanted
from tasks.shared.host_checks.findings import Finding, ok, problem

SEE = "to see it: deploy.py --dry --diff; to do it: deploy.py"
_SHOWN = 4
# Started by another unit; whether it is enabled is nobody's question.
_ONLY_ENABLED = (templates.SETTLE,)
_STARTED_BY_TIMER = (f"{templates.WATCH}.service", f"{templates.PRUNE}.service")


def judge(report: Report, wanted: Wanted) -> Iterator[Finding]:
    """Settings, hostkit, API key, units, limits."""
    if report.state is not None:
        yield _settings(report.state, wanted)
    if report.hostkit is not None:
        yield _hostkit(report.hostkit, wanted)
    if report.files is not None:
        yield from _key(report, wanted)
        yield from _limits(report, wanted)
    for name, digest in wanted.units.items():
        yield from _unit(name, digest, report.units.get(name, UnitReport()))


def _settings(state: HostState, wanted: Wanted) -> Finding:
    serving = state.serving
    held = state.generations.get(serving) if serving is not None else None
    if held is not None and held.digest == wanted.digest:
        return ok("settings", f"are those of generation {serving}")
    staged = state.find(wanted.digest)
    more = len(wanted.changes) - _SHOWN
    listed = "; ".join(wanted.changes[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    # Weights and the API key decide a generation, too, and are in none of its files.
    differs = listed or "the API key or the model's weights"
    if staged is not None:
        return problem(
            "settings",
            f"generation {serving} serves; {staged} is staged: {differs}",
            f"generation {staged}",
            "tasks/restart_vllm.py switches to it",
        )
    return problem(
        "settings",
        f"generation {serving} is not what they ask for: {differs}",
        "a generation of the settings as they are",
        f"{SEE}, then tasks/restart_vllm.py",
    )


def _hostkit(found: str, wanted: Wanted) -> Finding:
    if found == wanted.hostkit:
        return ok("hostkit", f"{found}, as in this repository")
    return problem("hostkit", f"{found} is installed", f"{wanted.hostkit}, this repository's", SEE)


def _key(report: Report, wanted: Wanted) -> Iterator[Finding]:
    held = (report.files or {}).get(KEY)
    if held is None:
        yield problem("API key", f"there is no {KEY}", "the key of api_key_file", "deploy.py")
    elif (held.owner, held.mode) == ("root", "600") and not wanted.key_matches:
        yield problem(
            "API key",
            f"{KEY} holds another one",
            "the key of api_key_file",
            "tasks/rotate_api_key.py for a new one, or deploy.py and tasks/restart_vllm.py",
        )


def _limits(report: Report, wanted: Wanted) -> Iterator[Finding]:
    held = (report.files or {}).get(LIMITS)
    found = held.sha256 if held else None
    if found != wanted.limits:
        yield problem(
            "SSD tier's limits",
            f"{LIMITS} {'is not there' if found is None else 'says something else'}",
            "kv_ssd_gb and kv_min_free_gb, as set" if wanted.limits else "no such file",
            SEE,
        )


def _unit(name: str, wanted: str | None, unit: UnitReport) -> Iterator[Finding]:
    if wanted is None:
        if unit.sha256:
            yield problem(name, "is there", "no such unit with these settings", SEE)
        return
    faults = [*_text_faults(name, wanted, unit), *_state_faults(name, unit)]
    if faults:
        yield problem(
            name,
            ", ".join(faults),
            "this repository's, enabled" + ("" if name in _ONLY_ENABLED else " and active"),
            SEE,
        )
    else:
        yield ok(name, "as in this repository")


def _text_faults(name: str, wanted: str, unit: UnitReport) -> Iterator[str]:
    if not unit.sha256:
        yield "is not there"
    elif unit.sha256 != wanted:
        yield "was edited by hand, or is of another state of this repository"
    elif f"/{name}.d/" in unit.drop_ins:
        yield f"is changed by drop-ins: {unit.drop_ins}"


def _state_faults(name: str, unit: UnitReport) -> Iterator[str]:
    if name in _STARTED_BY_TIMER:
        if unit.result not in ("success", ""):
            yield f"failed last time ({unit.result}): journalctl -u {name}"
        return
    if unit.active != "active" and name not in _ONLY_ENABLED:
        yield f"is {unit.active or 'unknown'}"
    if unit.enabled != "enabled":
        yield f"is {unit.enabled or 'not enabled'}"
