"""Debian packages."""

from collections.abc import Sequence

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation
from pyinfra.facts.deb import DebPackages

from tasks.shared.network import ENVIRONMENT
from tasks.shared.operations.common import Commands

LONGEST_WAIT_S = 300
MASKED = "/var/lib/vllm/masked-units"
"""Which units were masked, for an uninstall; the packages installed are listed beside it."""

# apt's own configuration of a proxy wins over these variables.
# apt waits for dpkg's lock only, and at once gives up on that of its own lists, which an apt of a
# deploy that was killed may hold for a while.
_WAITING_FOR_LOCKS = f"""
if test -r {ENVIRONMENT}; then set -a; . {ENVIRONMENT}; set +a; fi
waited=0
while :; do
    output=$(LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@" 2>&1) && exit 0
    case $output in
        *"Could not get lock"*|*"lock was locked"*|*"is locked by"*|*"Unable to lock"*) ;;
        *) printf '%s\\n' "$output" >&2; exit 1 ;;
    esac
    if test $waited -ge {LONGEST_WAIT_S}; then printf '%s\\n' "$output" >&2; exit 1; fi
    sleep 2; waited=$((waited + 2))
done
"""

# Of lists that could not be fetched apt only warns, and then says that there is no such package.
_INSTALL = """
said=$(apt-get update 2>&1) || { printf '%s\\n' "$said" >&2; exit 1; }
apt-get install --yes --no-install-recommends "$@" && exit 0
printf '%s\\n' "$said" | grep '^[EW]:' >&2
exit 1
"""


@operation()
def installed(packages: list[str], masked: Sequence[str] = ()) -> Commands:
    """Ensure that packages are installed; apt's lists are refreshed only when one is missing.

    A lock that another apt holds is waited for, up to five minutes. An installation that was
    interrupted is brought to its end first.

    + packages: names without a version
    + masked: units of the packages that would start by themselves, as Debian lets them, and must
      not: masked before anything is installed. Where all packages are there, units are left alone

    apt.installed(name="Install what a build needs", packages=["git", "gcc"])
    """
    present = host.get_fact(DebPackages)
    missing = [package for package in packages if package not in present]
    if not missing:
        host.noop(f"{', '.join(packages)} are installed")
        return
    for unit in masked:
        yield StringCommand(
            "systemctl --quiet mask", QuoteString(unit), "&&",
            "mkdir -p /var/lib/vllm && echo", QuoteString(unit), f">>{MASKED}",
        )  # fmt: skip
    yield waiting("dpkg", "--configure", "-a")
    yield waiting("sh", "-c", _INSTALL, "sh", *missing)
    # What was there before is not removed by an uninstall.
    names = StringCommand("printf '%s\\n'", *(QuoteString(name) for name in missing))
    yield StringCommand("mkdir -p /var/lib/vllm &&", names, ">>/var/lib/vllm/installed-packages")


def waiting(*command: str) -> StringCommand:
    """The command, begun again for up to five minutes while another apt holds a lock."""
    script = QuoteString(_WAITING_FOR_LOCKS)
    return StringCommand("sh -c", script, "sh", *(QuoteString(word) for word in command))
