"""make rehearse: a host, the deploy, the model's answer, and a deploy that changes nothing."""

from __future__ import annotations

import sys
import time

from .deploys import PYINFRA, ask, deploy_json, run_visibly
from .host.errors import RehearsalError

QUESTION = "What is the capital of France?"


def _main() -> int:
    began = time.monotonic()
    run_visibly(sys.executable, "-m", "tests.rehearsal", "up")
    run_visibly(sys.executable, "-m", "tests.rehearsal", "model")
    run_visibly(*PYINFRA, "deploy.py", "-y")
    _say(f"deployed after {time.monotonic() - began:.0f} s")
    _say(QUESTION)
    _say(ask(QUESTION))

    again = time.monotonic()
    totals = deploy_json()
    _say(f"the second deploy took {time.monotonic() - again:.1f} s: {totals}")
    if totals.changed or totals.error:
        raise RehearsalError(f"the second deploy was to change nothing: {totals.changed}")
    _say("the host stays up for you: python -m tests.rehearsal ssh | down")
    return 0


def _say(text: str) -> None:
    print(f"rehearsal: {text}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(_main())
    except RehearsalError as error:
        sys.exit(f"rehearsal: error: {error}")
