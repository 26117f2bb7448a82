"""Plugins of a release: wheels besides vLLM's own, each pinned by version and hash."""

import re
from typing import Annotated

from pydantic import AfterValidator

from tasks.shared.release import locks

_PINNED = re.compile(r"([A-Za-z0-9][\w.-]*)==([\w.!+-]+)((?: --hash=sha256:[0-9a-f]{64})+)")


def pinned(text: str) -> str:
    """A requirement as pip reads it, one exact version of it, or ValueError."""
    if not _PINNED.fullmatch(text):
        raise ValueError('write it as "name==version --hash=sha256:<64 hex digits>"')
    return text


Pinned = Annotated[str, AfterValidator(pinned)]


def check(plugins: list[str], vllm_lock: str) -> None:
    """Raise ValueError for a plugin that is named twice, or that vLLM's own lock has already."""
    found = [pin.name for pin in locks.pins(lock(plugins))]
    locked = {pin.name for pin in locks.pins(vllm_lock)}
    for name in found:
        if found.count(name) > 1:
            raise ValueError(f"plugins: {name} is named twice")
        if name in locked:
            raise ValueError(f"plugins: {name} is in files/locks already: it comes with vLLM")


def lock(plugins: list[str]) -> str:
    """plugins.txt of a release's inputs, as pip reads it."""
    return "".join(f"{plugin}\n" for plugin in plugins)
