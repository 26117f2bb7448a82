"""The generation that a host should run, and what leads there from the one that it runs."""

from pyinfra import host

from tasks.shared import credentials, models, templates
from tasks.shared.facts.files import FolderIdentity, TextTree
from tasks.shared.facts.hostkit import OutlookFact
from tasks.shared.generation import generations
from tasks.shared.generation.generations import CURRENT, Generation
from tasks.shared.generation.plans import Plan, Side, plan
from tasks.shared.release import releases
from tasks.shared.release.releases import INPUTS_DIR, Release
from tasks.shared.settings import Settings


def generation(settings: Settings, key: str | None = None) -> Generation:
    """The generation that these settings ask for on the host at hand.

    `key` is the API key that guards its server; None: that of this run.
    """
    return generations.wanted(
        settings,
        releases.wanted(settings),
        weights=_weights(settings.source),
        unit=templates.unit(settings),
        key_digest=credentials.digest(key or credentials.api_key(settings.api_key_file)),
    )


def plan_to(generation: Generation, release: Release, drain_s: int, current: str = CURRENT) -> Plan:
    """What leads to this generation from the one in a folder of the host at hand."""
    running = host.get_fact(TextTree, path=current)
    inputs = host.get_fact(TextTree, path=f"{INPUTS_DIR}/{Side(running, {}).release()}")
    outlook = host.get_fact(OutlookFact)
    return plan(
        Side(running, inputs),
        Side(generation.files, release.inputs),
        tier_bytes=outlook.tier_bytes,
        usual_start_s=outlook.ready_s,
        drain_s=drain_s,
    )


def _weights(source: models.ModelSource) -> str:
    """What tells these weights from any others."""
    if source.kind == "hf":
        return f"{source.location}@{source.revision}"
    if source.kind == "control":
        return models.content_identity(source.location)
    return host.get_fact(FolderIdentity, path=source.location)
