"""Follows one start of the service until it answers a completion, fails, or takes too long."""

import time
from dataclasses import dataclass

from hostkit import generations, proofs, server, startlog, units
from hostkit.jobs import progress

POLL_S = 1.0


class StartFailed(Exception):
    """This start will not serve; the text is its own cause, for the operator."""


@dataclass(frozen=True)
class Attempt:
    """One start of the unit, told apart from later ones by systemd's invocation id.

    `began` is a time of `time.monotonic()`, which is the clock that systemd uses here as well.
    """

    invocation: str
    began: float


def attempt() -> Attempt:
    """The start that is under way, or the one that the running server came from."""
    shown = units.show("InvocationID", "ExecMainStartTimestampMonotonic")
    microseconds = int(shown["ExecMainStartTimestampMonotonic"] or 0)
    return Attempt(shown["InvocationID"], microseconds / 1e6 or time.monotonic())


def until_answering(this: Attempt, deadline_s: float) -> server.Server:
    """Wait for this start's server and mark its generation as verified.

    Raises StartFailed with the last error that this start wrote, never a later one's.
    """
    why = shown_phase = ""
    while True:
        shown = units.show("ActiveState", "SubState", "InvocationID", "Result")
        lines = units.journal(this.invocation)
        if _is_over(shown, this):
            raise StartFailed(f"{startlog.last_error(lines)} (result: {shown['Result']})")
        try:
            found = server.find()
            if server.is_healthy(found):
                _require_proofs(found, lines)
                progress("asking for a completion")
                server.probe(found)
                generations.mark_verified(found.generation)
                return found
        except server.NotAnswering as error:
            why = str(error)
        elapsed = time.monotonic() - this.began
        phase = startlog.phase(lines)
        if elapsed > deadline_s:
            raise StartFailed(f"not ready after {deadline_s:.0f} s, while {phase}: {why}")
        if phase != shown_phase:
            progress(phase)
            shown_phase = phase
        time.sleep(POLL_S)


def _require_proofs(found: server.Server, lines: list[str]) -> None:
    expected = generations.note(found.generation).get("proofs", [])
    if missing := proofs.missing(expected, lines):
        raise StartFailed(f"it answers, but {'; '.join(missing)}")


def _is_over(shown: dict[str, str], this: Attempt) -> bool:
    if shown["InvocationID"] not in ("", this.invocation):
        return True
    return shown["ActiveState"] in ("failed", "inactive", "deactivating") or (
        shown["SubState"] == "auto-restart"
    )
