"""Can others read what an operator keeps on the host for us?

The files that a deploy writes there are judged by what hostkit tells of them: health/leftovers.py.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.shared import front_door
from tasks.shared.facts import file_access
from tasks.shared.facts.machine import Machine
from tasks.shared.host_checks.findings import Finding, ok, refusal, warning

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

NETRC = "/root/.netrc"
"""User names and passwords for downloads: settings may hold none."""

_CERTIFICATE, _KEY = "front_door_certificate", "front_door_certificate_key"


def on_host(settings: "Settings") -> list[str]:
    """The files that are looked at."""
    return [NETRC, *(front_door.files(settings) if settings.front_door else ())]


def judge(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    """The key of the front door's certificate, and the passwords for downloads."""
    if settings.front_door:
        yield from _front_door(machine, settings)
    netrc = machine.private.get(NETRC)
    if netrc is not None and not netrc.is_roots_alone():
        yield warning(NETRC, f"is {netrc}", "root's, mode 600", file_access.remedy(NETRC))


def _front_door(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    certificate, key = front_door.files(settings)
    made_here = settings.front_door_certificate == front_door.SELF_SIGNED
    if not made_here:
        for setting, path in ((_CERTIFICATE, certificate), (_KEY, key)):
            if path not in machine.private:
                yield refusal(
                    setting, f"{path} is not there", "a PEM file on the host", f"see {setting}"
                )
    access = machine.private.get(key)
    if access is None:
        return
    if access.is_roots_alone(or_a_groups=not made_here):
        yield ok(_KEY, f"{key} is {access}")
    else:
        cured_by = "tasks/front_door.py" if made_here else ""
        yield refusal(
            _KEY, f"{key} is {access}", file_access.WANTED, file_access.remedy(key), cured_by
        )
