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
from tasks.shared.settings import Settings, settings


def generation(key: str, variant: Settings | None = None) -> Generation:
    """The generation for the host at hand, its server guarded by this API key.

    A `variant` of its settings takes their place.
    """
    s = variant or settings()
    return generations.wanted(
        s,
        releases.wanted(s),
        weights=_weights(s.source),
        unit=templates.unit(s),
        key_digest=credentials.digest(key),
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
