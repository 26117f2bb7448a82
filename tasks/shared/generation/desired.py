"""The generation that a host should run, put together from its settings and its model."""

from pyinfra import host

from tasks.shared import credentials, models, templates
from tasks.shared.facts.files import FolderIdentity
from tasks.shared.generation import generations
from tasks.shared.generation.generations import Generation
from tasks.shared.release import releases
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


def _weights(source: models.ModelSource) -> str:
    """What tells these weights from any others."""
    if source.kind == "hf":
        return f"{source.location}@{source.revision}"
    if source.kind == "control":
        return models.content_identity(source.location)
    return host.get_fact(FolderIdentity, path=source.location)
