"""What kind of machine the host is, gathered in one round trip."""

import shlex
from dataclasses import dataclass

from pyinfra.api import FactBase

_SCRIPT = r"""
echo "pid1=$(cat /proc/1/comm)"
echo "arch=$(uname -m)"
echo "user=$(id -u)"
. /etc/os-release; echo "os=$ID $VERSION_ID"
echo "kernel=$(uname -r)"
echo "python=$(/usr/bin/python3 -c 'import platform; print(platform.python_version())' 2>&1)"
"""


@dataclass(frozen=True)
class Machine:
    """What kind of machine this is; `python` is empty when there is no /usr/bin/python3."""

    pid1: str = ""
    arch: str = ""
    user: str = ""
    os: str = ""
    kernel: str = ""
    python: str = ""

    @property
    def is_wsl2(self) -> bool:
        """WSL2's kernel says so in its release: 6.6.87.2-microsoft-standard-WSL2."""
        return "microsoft" in self.kernel.lower()


class MachineFact(FactBase[Machine]):
    """The host's init system, architecture, distribution, kernel and Python."""

    def command(self) -> str:
        return f"sh -c {shlex.quote(_SCRIPT)}"

    @staticmethod
    def default() -> Machine:
        return Machine()

    def process(self, output: list[str]) -> Machine:
        return parse(output)


def parse(lines: list[str]) -> Machine:
    """Read the script's output; what it could not find out keeps its empty default."""
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    python = found.get("python", "")
    return Machine(
        pid1=found.get("pid1", ""),
        arch=found.get("arch", ""),
        user=found.get("user", ""),
        os=found.get("os", "").strip(),
        kernel=found.get("kernel", ""),
        python=python if python[:1].isdigit() else "",
    )
