"""The plan of an upgrade: shown, and held to."""

from pyinfra import host
from pyinfra.api import operation

from tasks.shared.facts.files import TextTree
from tasks.shared.facts.hostkit import OutlookFact
from tasks.shared.generation.generations import Generation
from tasks.shared.generation.plans import Plan, Side, plan
from tasks.shared.operations.common import Commands, is_news, refuse
from tasks.shared.release.releases import INPUTS_DIR, Release


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
    found = current_to(generation, release, drain_s)
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


def current_to(
    generation: Generation, release: Release, drain_s: int, current: str = "/opt/vllm/current"
) -> Plan:
    """The plan that leads from a generation's folder on the host at hand to another generation."""
    running = host.get_fact(TextTree, path=current)
    inputs = host.get_fact(TextTree, path=f"{INPUTS_DIR}/{Side(running, {}).release()}")
    outlook = host.get_fact(OutlookFact)
    return plan(
        Side(running, inputs),
        Side(generation.files, release.inputs),
        tier_bytes=outlook.tier_bytes,
        usual_start_s=outlook.ready_s,
        drain_s=drain_s,
    )
