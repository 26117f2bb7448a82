"""Running one operation against a rehearsal host, without a deploy around it."""

from typing import Any

from pyinfra.api import Config, Inventory, State
from pyinfra.api.connect import connect_all, disconnect_all
from pyinfra.api.operation import add_op
from pyinfra.api.operations import run_ops

from .host.connection import connection

CHANGES = (True, True)
NOTHING = (False, False)


def run_operation(host: str, operation: Any, **arguments: Any) -> tuple[bool, bool]:
    """(predicted a change, made a change); PyinfraError when the operation fails."""
    name, data = connection(host)
    for setting in ("port", "metrics_port", "metrics_exporter_port", "model", "api_key_file"):
        del data[setting]
    state = State(Inventory(([name], data)), Config())
    connect_all(state)
    try:
        (meta,) = add_op(state, operation, **arguments).values()
        run_ops(state)
        return meta.will_change, meta.did_change()
    finally:
        disconnect_all(state)
