"""In which order hosts are switched: one by one or in named batches, never on after a failure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyinfra import state
from pyinfra.api.exceptions import DeployError

from tasks.shared.settings import Settings, of_all_hosts


@dataclass(frozen=True)
class Batch:
    """Hosts that are switched at the same time."""

    hosts: tuple[str, ...]
    number: int
    count: int

    def title(self, what: str) -> str:
        """The name of this batch's operation; nothing is added for a single host."""
        if self.count == 1 and len(self.hosts) == 1:
            return what
        return f"{what}: {', '.join(self.hosts)} ({self.number} of {self.count})"


def batches() -> list[Batch]:
    """The batches of this run, for all its hosts alike."""
    chosen = [host.name for host in state.inventory if host in state.activated_hosts]
    return divide(chosen, *agreed(of_all_hosts()))


def agreed(of_hosts: Mapping[str, Settings]) -> tuple[str | None, list[list[str]]]:
    """Canary and rollout, which are the same for all hosts; DeployError when they are not."""
    first = next(iter(of_hosts.values()))
    for name, each in of_hosts.items():
        if (each.canary, each.rollout) != (first.canary, first.rollout):
            raise DeployError(f"canary and rollout are for all hosts: {name} has its own")
    return first.canary, first.rollout


def divide(hosts: Sequence[str], canary: str | None, named: Sequence[Sequence[str]]) -> list[Batch]:
    """Batches of these hosts: the canary alone, then as named, then each other host by itself.

    Hosts that this run leaves out are skipped. DeployError for a host that is named twice.
    """
    wanted = [[canary]] if canary else []
    wanted += [[name for name in batch if name != canary] for batch in named]
    listed = [name for batch in wanted for name in batch]
    twice = sorted({name for name in listed if listed.count(name) > 1})
    if twice:
        raise DeployError(f"rollout names {', '.join(twice)} twice: each host once")
    wanted += [[name] for name in hosts if name not in listed]
    present = [tuple(name for name in batch if name in hosts) for batch in wanted]
    present = [batch for batch in present if batch]
    return [Batch(batch, index, len(present)) for index, batch in enumerate(present, start=1)]


def stopped_by() -> str | None:
    """Why no further host may be touched in this run; None while all went well."""
    failed = sorted(host.name for host in state.failed_hosts)
    return f"not touched, since {', '.join(failed)} failed" if failed else None
