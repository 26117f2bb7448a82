"""What an operator did wrong, in one line: pyinfra shows a traceback, or where in our code it was
noticed."""

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pyinfra import logger
from pyinfra.api.exceptions import DeployError, InventoryError, PyinfraError

if TYPE_CHECKING:
    from pyinfra_cli import exceptions


_inventory = [""]


def say_in_one_line() -> None:
    """Do so for this run: for files that an operator writes, and for what we refuse.

    Only valid inside pyinfra's click command.
    """
    from pyinfra_cli import exceptions  # changes the standard library as it is imported

    _inventory.append(click.get_current_context().params["inventory"])
    for kind, line in (
        (exceptions.WrappedError, _refusal),
        (exceptions.UnexpectedExternalError, _broken_file),
        (exceptions.UnexpectedInternalError, _unreadable_file),
    ):
        kind.show = _instead(kind.show, line)


def _instead(show: Any, line: Any) -> Any:
    """pyinfra's way of showing an exception, unless there is a line for it."""

    def shown(self: Any, file: Any = None) -> None:
        text = line(self)
        if text is None:
            show(self, file)
        else:
            logger.error(f"--> {click.style('error', 'red', bold=True)}: {text}")

    return shown


def _refusal(error: "exceptions.WrappedError") -> str | None:
    """Where in our code it was noticed says nothing to whoever made the mistake."""
    refused = isinstance(error.exception, DeployError | InventoryError)
    # What has no class of its own is pyinfra's word for all hosts having failed.
    return error.message if refused or type(error.exception) is PyinfraError else None


def _broken_file(error: "exceptions.UnexpectedExternalError") -> str | None:
    """An inventory or settings that Python reads and cannot carry out: `true` for `True`."""
    if not _is_the_operators(error.filename):
        return None
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.exception._traceback)
        if frame.filename == str(error.filename)
    ]
    if not lines:
        return None
    return f"{_shown(error.filename)}, line {lines[-1]}: {error.exception}"


def _unreadable_file(error: "exceptions.UnexpectedInternalError") -> str | None:
    """One that Python cannot read: a bracket, a quotation mark."""
    broken = error.exception
    if not isinstance(broken, SyntaxError) or not _is_the_operators(broken.filename):
        return None
    found = f": {broken.text.strip()}" if broken.text and broken.text.strip() else ""
    return f"{_shown(broken.filename)}, line {broken.lineno}: {broken.msg}{found}"


def _is_the_operators(file: str | None) -> bool:
    """Is it this run's inventory, or settings? All else is a part of the deploy."""
    return file is not None and (Path(file).parent.name == "group_data" or file == _inventory[-1])


def _shown(file: Any) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
