"""What may be done with a generation on a host, as the host is: pure functions."""

from enum import Enum

from tasks.shared.facts.hostkit import HostState


def no_way_back(state: HostState, to: int | None) -> str | None:
    """Why a host cannot be rolled back to a generation (None: the one before); None when it can."""
    served = sorted(number for number in state.generations if state.is_verified(number))
    choice = f"name one that has served: --data rollback_to=N, of {served or 'none'}"
    if to is None and state.previous in (None, state.current):
        return f"there is no generation before {state.current}: {choice}"
    number = state.previous if to is None else to
    if number not in state.generations:
        return f"there is no generation {number}: {choice}"
    if number not in served:
        return f"generation {number} has never served: {choice}"
    return None


class Step(Enum):
    """What a deploy does with a staged generation."""

    NOTHING = "it is the one that serves"
    START = "nothing serves"
    RESTART_NEEDED = "another generation serves"


def next_step(state: HostState, number: int) -> Step:
    """Whether generation `number` may be started now.

    A server that answers is never touched. One that does not is left alone while it may still come:
    when it is the wanted one, or one that has served before, be it between two starts.
    """
    if state.active not in ("active", "activating", "reloading", "deactivating"):
        return Step.START
    if state.serving == number and state.sub == "running":
        return Step.NOTHING
    if state.serving in (None, number):
        return Step.START
    # Of a generation whose note was damaged it cannot be told whether it has served.
    known = state.serving in state.generations
    if state.answering or not known or state.is_verified(state.serving):
        return Step.RESTART_NEEDED
    return Step.START
