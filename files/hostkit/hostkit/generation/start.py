"""The unit's main process: resolves `current` once, then becomes the release's own vLLM.

A running server therefore names its release's real path and never sees the next release's files.
Exit status 78 (EX_CONFIG) is not retried by the unit, 75 (EX_TEMPFAIL) is.
"""

import json
import os
import re
import sys
from typing import Any

from hostkit.generation import gate, generations, starts
from hostkit.host import paths, units
from hostkit.host.process import Failure

_CONFIG = re.compile(rf" serve --config {re.escape(str(paths.GENERATIONS))}/(\d+)/serve\.yaml")
STARTED = paths.RUN / "server/start.json"


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("start", help="become the current generation's server (unit)")
    parser.set_defaults(run=lambda _args: start())


def start() -> int:
    """Become the server; returns only when it must not, with the exit status that says so."""
    number = generations.linked(paths.CURRENT)
    try:
        if number is None:
            raise Failure(f"{paths.CURRENT} names no generation: deploy again")
        if not os.environ.get("GENERATION_DIGEST"):
            raise Failure(f"vllm.env of generation {number} is damaged: deploy again")
        if os.environ["GENERATION_DIGEST"] != generations.note(number)["digest"]:
            print("hostkit: `current` moved while the unit was starting", file=sys.stderr)
            return os.EX_TEMPFAIL
        if not os.environ.get("VLLM_API_KEY"):
            raise Failure(f"{paths.SECRETS_ENV} holds no API key: deploy again")
        note = generations.note(number)
        starts.check(note.get("start_limit"))
        gate.check(number)
        gate.check_machine(number)
    except gate.NotNow as failure:
        print(f"hostkit: refused for now: {failure}", file=sys.stderr)
        return os.EX_TEMPFAIL
    except Failure as failure:
        print(f"hostkit: refused: {failure}", file=sys.stderr)
        return os.EX_CONFIG
    folder = generations.folder(number).resolve()
    release = (folder / "release").resolve()
    STARTED.write_text(json.dumps({"pid": os.getpid(), "generation": number}))
    print(f"hostkit: generation {number}, release {release.name}", flush=True)
    server = str(release / "venv/bin/vllm")
    return os.execv(server, [server, "serve", "--config", str(folder / "serve.yaml")])


def running_generation(pid: int) -> int | None:
    """The generation of the server with this process id; None when it is not known."""
    try:
        started = json.loads(STARTED.read_text())
        if started["pid"] == pid:
            return int(started["generation"])
    except (OSError, ValueError, TypeError, KeyError):
        pass
    # The note is gone or torn: the process itself was told.
    served = _CONFIG.search(units.command_line(pid))
    return int(served[1]) if served else None
