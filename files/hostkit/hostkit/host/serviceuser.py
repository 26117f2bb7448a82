"""The user that the service runs as, and running as it what has no business with root's rights."""

import os
import pwd
from typing import Any

from hostkit.host import paths


def account() -> pwd.struct_passwd | None:
    """None before there is one."""
    try:
        return pwd.getpwnam(paths.SERVICE_USER)
    except KeyError:
        return None


def to_become() -> pwd.struct_passwd | None:
    """Its account where we are root; None where there is none, or we may not become it."""
    return account() if os.geteuid() == 0 else None


def identity() -> dict[str, Any]:
    """For subprocess: run as that user, with its own group and no other; nothing to pass else."""
    user = to_become()
    if user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
