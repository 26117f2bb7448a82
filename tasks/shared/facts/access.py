"""How commands become root's on a host that is not logged in to as root."""

import shlex
from dataclasses import dataclass

from pyinfra.api import FactBase

_SCRIPT = r"""
export LC_ALL=C
echo "user=$(id -u)"
command -v sudo >/dev/null || exit 0
echo "sudo=$(sudo --version 2>/dev/null | head -n 1)"
sudo -n true >/dev/null 2>&1 && echo "unasked=yes"
exit 0
"""


@dataclass(frozen=True)
class Access:
    """Who logs in, and which sudo there is: empty for none."""

    user: str = ""
    sudo: str = ""
    unasked: bool = False
    """Does sudo work without a password?"""


class AccessFact(FactBase[Access]):
    """Who logs in, and what sudo asks. To be asked with _sudo=False."""

    def command(self) -> str:
        return f"sh -c {shlex.quote(_SCRIPT)}"

    @staticmethod
    def default() -> Access:
        return Access()

    def process(self, output: list[str]) -> Access:
        return parse(output)


def parse(lines: list[str]) -> Access:
    """Read the script's output."""
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    return Access(found.get("user", ""), found.get("sudo", ""), "unasked" in found)
