"""Follows one start of the service until it answers a completion, fails, or takes too long."""

import time
from dataclasses import dataclass

from hostkit.generation import generations, proofs, startlog
from hostkit.health import failures, fingerprints
from hostkit.host import paths, process, units
from hostkit.host.jobs import progress
from hostkit.serving import server

POLL_S = 1.0
DROP_IN = paths.ROOT / "run/systemd/system/vllm.service.d/watched.conf"


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


def hold_restarts() -> None:
    """Until `allow_restarts`, or the next boot, systemd does not start a server that has ended."""
    DROP_IN.parent.mkdir(parents=True, exist_ok=True)
    process.write_atomic(DROP_IN, "[Service]\nRestart=no\n")
    units.systemctl("daemon-reload")


def allow_restarts() -> None:
    """The unit's own Restart= is in force again; a server that runs is not touched by it."""
    if DROP_IN.exists():
        DROP_IN.unlink()
        units.systemctl("daemon-reload")


def until_answering(
    this: Attempt, deadline_s: float, usual_s: float | None = None
) -> server.Server:
    """Wait for this start's server to answer a completion; `usual_s` is shown beside each phase.

    Raises StartFailed with the last error that this start wrote, never a later one's.
    """
    why = shown_phase = ""
    usual = f" (the last good start took {usual_s:.0f} s)" if usual_s else ""
    while True:
        shown = units.show("ActiveState", "SubState", "InvocationID", "Result")
        lines = units.journal(this.invocation)
        if _is_over(shown, this):
            raise StartFailed(f"{startlog.last_error(lines)} (result: {shown['Result']})")
        phase = startlog.phase(lines)
        if phase != shown_phase:
            progress(f"{phase}{usual}")
            shown_phase, usual = phase, ""
        try:
            found = server.find()
            if server.is_healthy(found):
                _require_proofs(found, this)
                progress("asking for a completion")
                server.probe(found)
                failures.served(this.invocation, found.generation)
                return found
            why = f"port {found.port} is open, and /health does not answer"
        except server.NotAnswering as error:
            why = str(error)
        elapsed = time.monotonic() - this.began
        if elapsed > deadline_s:
            late = f"not ready after {deadline_s:.0f} s, while {phase}: {why}"
            failures.record(this.invocation, said=late, kind=fingerprints.NOT_READY)
            raise StartFailed(late)
        time.sleep(POLL_S)


def _require_proofs(found: server.Server, this: Attempt) -> None:
    expected = generations.note(found.generation).get("proofs", [])
    # Read anew: the server may have written it after the look at its log, and before it answered.
    units.sync_journal()
    if missing := proofs.missing(expected, units.journal(this.invocation)):
        raise StartFailed(f"it answers, but {'; '.join(missing)}")


def _is_over(shown: dict[str, str], this: Attempt) -> bool:
    if shown["InvocationID"] not in ("", this.invocation):
        return True
    return shown["ActiveState"] in ("failed", "inactive", "deactivating") or (
        shown["SubState"] == "auto-restart"
    )
