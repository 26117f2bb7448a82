"""Users of a host."""

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation

from tasks.shared.facts.users import User, UserFact
from tasks.shared.operations.common import Commands

NO_SHELL = "/usr/sbin/nologin"


@operation()
def service_user(user: str, home: str) -> Commands:
    """Ensure a system user with a group of its own, who cannot log in. The home is not made.

    pyinfra's server.user reads the password hashes of all users for that, prints them with -vvv,
    and takes a third of a second.

    + user: the name of both
    + home: a path

    users.service_user(name="Create the service's user", user="vllm", home="/var/lib/vllm/home")
    """
    present = host.get_fact(UserFact, user=user)
    if present == User(home, NO_SHELL):
        host.noop(f"user {user} is there")
        return
    name = QuoteString(user)
    told = StringCommand("--shell", NO_SHELL, "--home", QuoteString(home), name)
    if present:
        yield StringCommand("usermod", told)
        return
    # The group may be left of a user that was removed.
    yield StringCommand("groupadd --system --force", name)
    yield StringCommand("useradd --system --no-create-home --gid", name, told)
