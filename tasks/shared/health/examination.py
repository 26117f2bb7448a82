"""The host at hand, and what the repository makes of it, for the doctor to compare."""

from pathlib import Path

from pyinfra import host

from tasks.shared import credentials, front_door, templates
from tasks.shared.engine import kv_tier
from tasks.shared.facts.doctor import DoctorFact, Report
from tasks.shared.facts.files import SecretFileMatches
from tasks.shared.generation import desired
from tasks.shared.generation.generations import CURRENT, GENERATIONS_DIR
from tasks.shared.health.wanted import Wanted, sha256
from tasks.shared.release import releases
from tasks.shared.settings import Settings, settings


def report() -> Report:
    """What hostkit finds."""
    return host.get_fact(DoctorFact)


def wanted(report: Report) -> Wanted:
    """What a deploy would leave behind, compared with the generation that serves."""
    own, serving = settings(), report.generation
    key = credentials.api_key(own.api_key_file)
    generation = desired.generation(own, key)
    plan = desired.plan_to(
        generation,
        releases.wanted(own),
        own.shutdown_timeout_s,
        current=CURRENT if serving is None else f"{GENERATIONS_DIR}/{serving}",
    )
    return Wanted(
        digest=generation.digest,
        changes=plan.changes,
        hostkit=templates.hostkit_digest(),
        units=_units(own, report),
        limits=_limits(own, report),
        key_matches=host.get_fact(
            SecretFileMatches, path=credentials.KEY, sha256=sha256(credentials.env_file(key))
        ),
        prune_minutes=own.kv_prune_minutes,
    )


def _keeps_limits(own: Settings, report: Report) -> bool:
    return report.state is not None and kv_tier.still_limited(own, report.state)


def _limits(own: Settings, report: Report) -> str | None:
    """The sha256 of the SSD tier's limits; those that are there where they stay."""
    if _keeps_limits(own, report):
        held = (report.files or {}).get(kv_tier.LIMITS)
        return held.sha256 if held else None
    return sha256(kv_tier.limits(own)) if own.kv_ssd_gb else None


def _units(own: Settings, report: Report) -> dict[str, str | None]:
    """Those that a deploy has anything to say of."""
    kept = templates.PRUNE if _keeps_limits(own, report) else None
    return {name: each for name, each in units(own).items() if name.partition(".")[0] != kept}


def units(own: Settings) -> dict[str, str | None]:
    """The sha256 of each unit that is not part of a generation; None for one that must not be."""
    settle = Path("templates", templates.SETTLE).read_text(encoding="utf-8")
    texts: dict[str, str | None] = {
        templates.GUARD: templates.guard_unit(own),
        templates.SETTLE: settle,
        templates.METRICS: templates.metrics_unit(own) if own.metrics else None,
        templates.PROMETHEUS: templates.prometheus_unit(own) if own.metrics else None,
        front_door.UNIT: templates.front_door_unit(own) if own.front_door else None,
    }
    timers = {templates.WATCH: templates.watch(own), templates.PRUNE: templates.prune(own)}
    for name, made in timers.items():
        for unit in (f"{name}.service", f"{name}.timer"):
            texts[unit] = made[unit] if made else None
    return {name: None if text is None else sha256(text) for name, text in texts.items()}
