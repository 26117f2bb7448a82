"""What the repository and its settings make of a host."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

HOSTKIT = "sudo python3 -IB /opt/vllm/hostkit"
"""How an operator calls hostkit on the host."""


@dataclass(frozen=True)
class Wanted:
    """What a deploy would leave behind.

    `digest` is the generation's; `changes` are the lines of the plan that leads to it from the
    current one; `hostkit` is the program's digest; `units` has the sha256 of each unit's file, None
    for one that must not be there; `limits` that of the SSD tier's limits, None without a tier.
    """

    digest: str
    changes: tuple[str, ...]
    hostkit: str
    units: Mapping[str, str | None]
    limits: str | None
    key_matches: bool
    prune_minutes: int


def sha256(text: str) -> str:
    """As hostkit hashes a file."""
    return hashlib.sha256(text.encode()).hexdigest()
