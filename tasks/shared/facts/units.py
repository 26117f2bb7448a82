"""Units of systemd: their files, and whether systemd works with them."""

import base64
import shlex
from dataclasses import dataclass

from pyinfra.api import FactBase, QuoteString, StringCommand

from tasks.shared.facts.yesorno import YesOrNo

UNITS_DIR = "/etc/systemd/system"
_ASKED = "--property=ActiveState,UnitFileState,NeedDaemonReload"


@dataclass(frozen=True)
class Unit:
    """A unit as it is on the host; of one that is not there nothing is known."""

    text: str = ""
    active: str = ""
    enabled: str = ""
    needs_reload: str = ""

    @property
    def is_in_force(self) -> bool:
        """Does it run, also after the next boot, as its file says?"""
        return (self.active, self.enabled, self.needs_reload) == ("active", "enabled", "no")


class UnitFact(FactBase[Unit]):
    """A unit's file below /etc and its state, in one round trip."""

    def command(self, unit: str) -> StringCommand:
        file = QuoteString(f"{UNITS_DIR}/{unit}")
        return StringCommand(
            "systemctl show", _ASKED, QuoteString(unit), "2>/dev/null; echo ---; cat", file,
            "2>/dev/null || true",
        )  # fmt: skip

    @staticmethod
    def default() -> Unit:
        return Unit()

    def process(self, output: list[str]) -> Unit:
        at = output.index("---")
        shown = dict(line.split("=", 1) for line in output[:at] if "=" in line)
        text = "".join(f"{line}\n" for line in output[at + 1 :])
        return Unit(
            text,
            shown.get("ActiveState", ""),
            shown.get("UnitFileState", ""),
            shown.get("NeedDaemonReload", ""),
        )


class UnitFiles(FactBase[dict[str, str]]):
    """Name to content of those of these units that are there; "" for one that is not."""

    def command(self, names: list[str]) -> StringCommand:
        loop = "for name in " + " ".join(shlex.quote(name) for name in names)
        return StringCommand(
            f"{loop}; do echo $name $(base64 -w 0 {UNITS_DIR}/$name 2>/dev/null); done"
        )

    @staticmethod
    def default() -> dict[str, str]:
        return {}

    def process(self, output: list[str]) -> dict[str, str]:
        rows = (line.partition(" ") for line in output if line.strip())
        return {name: base64.b64decode(text).decode("utf-8", "replace") for name, _, text in rows}


class UnitIsOn(YesOrNo):
    """Is this unit active, and enabled for the next boot?"""

    def command(self, unit: str) -> StringCommand:
        name = QuoteString(unit)
        return StringCommand(
            "systemctl is-active --quiet", name, "2>/dev/null &&",
            "systemctl is-enabled --quiet", name, "2>/dev/null && echo yes || echo no",
        )  # fmt: skip
