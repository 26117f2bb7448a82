"""Generations that a load test tries beside the one that serves: variants of a host's settings."""

from typing import TYPE_CHECKING

from tasks.shared import compat

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

MTP_TOKENS = (1, 2, 3, 4)


def of(settings: "Settings") -> dict[str, "Settings"]:
    """The variants that `sweep` asks for, by the label that their rows get.

    Raises ValueError for one that files/compat refuses; it names the risk to accept.
    """
    if settings.sweep is None:
        return {}
    if not settings.mtp_tokens:
        raise ValueError("sweep = mtp: this profile does not speculate (mtp_tokens is 0)")
    variants = {
        f"MTP {tokens}": settings.model_copy(update={"mtp_tokens": tokens}) for tokens in MTP_TOKENS
    }
    for variant in variants.values():
        try:
            compat.check(variant)
        except ValueError as error:
            raise ValueError(f"sweep = mtp: {error}") from error
    return variants
