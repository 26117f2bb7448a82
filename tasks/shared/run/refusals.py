"""Ending a run, or failing an operation, with one line."""

import sys
from typing import NoReturn

from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, State


def refuse(message: str) -> NoReturn:
    """End the run with exit status 1 and this line alone."""
    sys.exit(f"error: {message}")


def refusal(reason: str) -> FunctionCommand:
    """The command that says why, and fails."""
    return FunctionCommand(_fail, [reason], {})


def _fail(state: State, host: Host, reason: str) -> bool:
    host.log_styled(reason, fg="red", log_func=logger.error)
    return False
