"""systemd units."""

from pyinfra import host
from pyinfra.api import operation

from tasks.shared.facts.hostkit import HostStateFact, hostkit
from tasks.shared.operations.common import Commands


@operation()
def in_force() -> Commands:
    """Ensure that systemd works with the unit of the current generation.

    A switch brings its unit along; this makes up for one that was edited by hand or interrupted.

    units.in_force(name="Keep the current generation's unit in force")
    """
    if host.get_fact(HostStateFact).unit_in_force:
        host.noop("the current generation's unit is in force")
        return
    yield hostkit("install-unit")
