"""What the commands of a run find in their environment, whoever logs in and however."""

from collections.abc import Iterable

from pyinfra.api import Host

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Root's, as Debian and Ubuntu have it. sudo may hand on a user's own, and dpkg then fails."""


def give(hosts: Iterable[Host]) -> None:
    """Give it to every command on these hosts; what a host's own data says wins."""
    for host in hosts:
        host.data._env = {"PATH": PATH, **(host.data.get("_env") or {})}
