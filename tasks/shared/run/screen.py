"""What pyinfra itself prints of a run, kept to what one reads before saying yes.

Of operations only those are listed that change something or fail; the others are counted. `-v`
lists all, as pyinfra does by itself.
"""

from collections.abc import Iterator
from typing import Any

from pyinfra import logger
from pyinfra.api import Host, State, facts
from pyinfra.api.util import log_error_or_warning


def show_what_matters() -> None:
    """Do so for this run."""
    from pyinfra_cli import cli  # changes the standard library as it is imported

    cli.print_meta = _plan
    cli.print_results = _results
    facts.log_error_or_warning = _failed_question  # type: ignore[assignment]


def _plan(state: State) -> None:
    """The operations that would change something. A run without any operation ends here."""
    from pyinfra_cli import cli, prints

    order = _order(state)
    if not order:
        logger.info("none")
        cli._exit()
    changing = [each for each in order if state.print_noop_info or _would_change(state, each)]
    if changing:
        prints.print_meta(_Part(state, changing))
    _say_how_many(order, changing)


def _results(state: State) -> None:
    from pyinfra_cli import prints

    order = _order(state)
    told = [each for each in order if state.print_noop_info or _did_something(state, each)]
    if told:
        prints.print_results(_Part(state, told))
    _say_how_many(order, told)


def _order(state: State) -> list[str]:
    return list(state.get_op_order())  # type: ignore[no-untyped-call]


class _Part:
    """A run's state with some of its operations alone, for pyinfra's own tables."""

    def __init__(self, state: State, order: list[str]) -> None:
        self._state = state
        self._order_of_part = order

    def get_op_order(self) -> list[str]:
        return self._order_of_part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)


def _say_how_many(order: list[str], listed: list[str]) -> None:
    if len(listed) < len(order):
        logger.info(f"{len(order) - len(listed)} of {len(order)} operations: nothing to change")


def _metas(state: State, operation: str) -> Iterator[Any]:
    for host in state.inventory.iter_activated_hosts():
        if operation in state.ops[host]:
            yield state.ops[host][operation].operation_meta


def _would_change(state: State, operation: str) -> bool:
    return any(meta._maybe_is_change for meta in _metas(state, operation))


def _did_something(state: State, operation: str) -> bool:
    return any(
        not meta.did_succeed(_raise_if_not_complete=False) or meta.did_change()
        for meta in _metas(state, operation)
    )


def _failed_question(host: Host, ignore_errors: bool, description: str = "", **more: Any) -> None:
    """The host's own words stand above; which of our questions it was is for --debug."""
    if description.startswith("could not load fact: "):
        logger.debug("%s%s", host.print_prefix, description)
        description = "this host could not be asked: what it said stands above"
    log_error_or_warning(host, ignore_errors, description, **more)
