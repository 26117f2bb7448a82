"""Lock files as pip reads them: which versions of which packages they pin, by which hashes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hostkit.release.wheel import canonical

_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([^\s;\\]+)((?:.*\\\n)*.*)", re.MULTILINE)
_SHA256 = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """One version of a package, by its canonical name, and the hashes of the archives of it."""

    name: str
    version: str
    sha256: tuple[str, ...] = ()


def pins(text: str) -> Iterator[Pin]:
    """The pins of a lock file; one that holds for some machines only is one, too."""
    for name, version, rest in _PIN.findall(text):
        yield Pin(canonical(name), version, tuple(_SHA256.findall(rest)))
