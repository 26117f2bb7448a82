"""A unit of systemd: its file, and whether systemd works with it."""

from dataclasses import dataclass

from pyinfra.api import FactBase, QuoteString, StringCommand

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
        file = QuoteString(f"/etc/systemd/system/{unit}")
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
