"""Failing an operation with one line."""

from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, State


def refusal(reason: str) -> FunctionCommand:
    """The command that says why, and fails."""
    return FunctionCommand(_fail, [reason], {})


def _fail(state: State, host: Host, reason: str) -> bool:
    host.log_styled(reason, fg="red", log_func=logger.error)
    return False
