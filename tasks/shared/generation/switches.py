"""How a host's server is to be switched: the options of hostkit's `switch`."""

import getpass
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.shared.settings import Settings


@dataclass(frozen=True)
class Switch:
    """How to go from one generation to another. `doing` tells a second operator what goes on."""

    doing: str
    deadline_s: int
    wait_s: int
    force: bool
    pool_tolerance: int
    go_back: bool = False
    quality: bool = False
    bench_gate: float | None = None

    def arguments(self, number: int) -> list[str]:
        """hostkit's command line for the generation of that number."""
        options = ["--force"] if self.force else []
        options += ["--go-back"] if self.go_back else []
        options += ["--quality"] if self.quality else []
        if self.bench_gate is not None:
            options += ["--bench-gate", f"{self.bench_gate:g}"]
        return [
            *("switch", str(number), "--deadline", str(self.deadline_s)),
            *("--wait", str(self.wait_s), "--pool-tolerance", str(self.pool_tolerance)),
            *("--by", operator(), "--doing", self.doing, *options),
        ]


def switch(
    settings: "Settings", doing: str, *, go_back: bool = False, compare: bool = False
) -> Switch:
    """A switch as the settings have it.

    `go_back` brings the generation before into service again when the new one fails; `compare`
    counts it as a failure, too, when its answers are worse, or it is slower, than the settings let.
    """
    return Switch(
        doing,
        settings.ready_timeout_s,
        settings.idle_wait_s,
        settings.force == "yes",
        settings.kv_pool_tolerance,
        go_back,
        compare and settings.quality_check,
        settings.bench_gate if compare else None,
    )


def operator() -> str:
    """Who runs this, for others who want to change the same server."""
    return f"{getpass.getuser()}@{socket.gethostname()}"
