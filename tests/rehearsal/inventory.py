"""Every rehearsal host of this clone, or those that REHEARSAL_HOSTS names (comma-separated).

pyinfra takes each public list in here for a group of hosts.
"""

import os as _os

from pyinfra.api.exceptions import InventoryError as _InventoryError

from tests.rehearsal.host import state as _state
from tests.rehearsal.host.connection import connection as _connection
from tests.rehearsal.host.errors import RehearsalError as _RehearsalError


def _hosts():
    named = _os.environ.get("REHEARSAL_HOSTS", "").replace(",", " ").split()
    found = named or _state.names()
    if not found:
        raise _InventoryError(
            "no rehearsal host is there: make one with: python -m tests.rehearsal up"
        )
    try:
        return [_connection(name) for name in found]
    except _RehearsalError as error:
        raise _InventoryError(str(error)) from None


rehearsal = _hosts()
