"""Generations that a load test tries beside the one that serves: variants of a host's settings."""

from typing import TYPE_CHECKING

from pyinfra.api.exceptions import DeployError

from tasks.shared.engine import compat, serving

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

MTP_TOKENS = (1, 2, 3, 4)
PROFILE_DIR = f"{serving.HOME}/profile"
PROFILER = {
    "profiler": "torch",
    "torch_profiler_dir": PROFILE_DIR,
    "torch_profiler_with_stack": False,
    "ignore_frontend": True,
    # Not the first steps, in which there is nothing to decode yet.
    "delay_iterations": 4,
    "max_iterations": 8,
}


def of(settings: "Settings") -> dict[str, "Settings"]:
    """The variants that `sweep` or `profile` ask for, by the label that their rows get.

    Raises DeployError for one that files/compat refuses; it names the risk to accept.
    """
    asked = [name for name in ("sweep", "profile", "soak") if getattr(settings, name)]
    if len(asked) > 1:
        raise DeployError(f"{' and '.join(asked)} are asked for: one of them in a run")
    if settings.profile:
        told = settings.extra_serve_args | {"profiler-config": PROFILER}
        return {"profiler": settings.model_copy(update={"extra_serve_args": told})}
    return _sweep(settings) if settings.sweep else {}


def _sweep(settings: "Settings") -> dict[str, "Settings"]:
    if not settings.mtp_tokens:
        raise DeployError("sweep = mtp: this profile does not speculate (mtp_tokens is 0)")
    variants = {
        f"MTP {tokens}": settings.model_copy(update={"mtp_tokens": tokens}) for tokens in MTP_TOKENS
    }
    for variant in variants.values():
        try:
            compat.check(variant)
        except ValueError as error:
            raise DeployError(f"sweep = mtp: {error}") from error
    return variants
