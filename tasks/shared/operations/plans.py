"""The plan of an upgrade: shown, and held to."""

from pyinfra import host
from pyinfra.api import operation

from tasks.shared.generation import desired
from tasks.shared.generation.generations import Generation
from tasks.shared.operations.common import Commands, is_news, refuse
from tasks.shared.release.releases import Release


@operation()
def agreed(
    generation: Generation, release: Release, *, drain_s: int, expected: str | None = None
) -> Commands:
    """Show what would change, and refuse to go on when that is not what was agreed upon.

    + generation: the one that should run
    + release: its release
    + drain_s: how long running requests may take to end
    + expected: hashes of plans, one a host, separated by commas; None: whatever changes

    plans.agreed(name="Plan", generation=wanted, release=release, drain_s=30)
    """
    found = desired.plan_to(generation, release, drain_s)
    # Made once more when it is carried out; the operator has read it by then.
    if is_news(found.hash):
        host.log(f"Plan {found.hash}:")
        for line in found.lines:
            host.log(f"  {line}")
    if expected and found.hash not in expected.replace(" ", "").split(","):
        yield from refuse(
            f"the plan is {found.hash} now and not {expected}: something has changed since; "
            "read it, and name it with --data plan="
        )
        return
    host.noop(f"plan {found.hash}")
