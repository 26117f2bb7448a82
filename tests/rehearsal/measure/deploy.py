"""How long a deploy without a change takes over SSH, how many remote commands it needs, and where
the time goes: `python -m tests.rehearsal.measure.deploy [NAME [TASK]]`, against a deployed host.
With tasks/check_host.py as TASK: how long it takes to learn everything about a host.

Runs as they are take turns with runs without TCP_NODELAY and with runs in which each fact is asked
by itself, so that the ratios hold on a noisy machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .. import deploys
from ..host import state
from ..host.errors import RehearsalError

ROUNDS = 5
WITHOUT = "MEASURE_WITHOUT"
FILE = "MEASURE_FILE"
VARIANTS = ("", "TCP_NODELAY", "prefetch")
"""What a run does without; "" is the run as it is."""


def _measured_run() -> None:
    """The child: pyinfra with a clock around connecting and around every remote command."""
    from pyinfra.connectors.ssh import SSHConnector
    from pyinfra_cli.main import main

    from tasks.shared.run import prefetch, ssh

    began, imported = float(os.environ["MEASURE_BEGAN"]), time.monotonic()
    commands: list[tuple[float, str]] = []
    connected: list[float] = []

    def timed_connect(self: SSHConnector) -> None:
        begin = time.perf_counter()
        connect(self)
        connected.append(time.perf_counter() - begin)

    def timed_command(self: SSHConnector, command: Any, *args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        asker = _asker(sys._getframe())
        try:
            return run_shell_command(self, command, *args, **kwargs)
        finally:
            commands.append((time.perf_counter() - begin, asker))

    connect, run_shell_command = SSHConnector.connect, SSHConnector.run_shell_command
    SSHConnector.connect = timed_connect  # type: ignore[method-assign]
    SSHConnector.run_shell_command = timed_command  # type: ignore[method-assign]
    if os.environ[WITHOUT] == "TCP_NODELAY":
        ssh.use_nodelay = lambda: None
    if os.environ[WITHOUT] == "prefetch":
        prefetch.install = lambda: None
    sys.argv = ["pyinfra", deploys.INVENTORY, os.environ[FILE], "-y"]
    try:
        main()
    finally:
        figures = {
            "start of Python": imported - began,
            "connecting": sum(connected),
            "remote commands": sum(seconds for seconds, _ in commands),
            "total": time.monotonic() - began,
            "commands": commands,
        }
        print(json.dumps(figures))


def _asker(frame: FrameType | None) -> str:
    """Who runs a remote command: a fact, for which operation, or a round of prefetched facts."""
    said = []
    while frame:
        seen, function = frame.f_locals, frame.f_code.co_name
        if function == "_ask_together":
            return f"{len(seen['questions'])} facts together"
        if function == "_get_fact":
            said.append(seen["name"])
        if function == "_run_host_op":
            said.append(f"for {next(iter(seen['state'].op_meta[seen['op_hash']].names))}")
        frame = frame.f_back
    return " ".join(said) or "another"


def measured_environment(host: str, extra: dict[str, str] | None = None) -> dict[str, str]:
    """As an operator has it: Python need not compile again what it has compiled before."""
    own = deploys.environment(host, extra)
    del own["PYTHONDONTWRITEBYTECODE"]
    return own


def run(name: str, file: str, without: str = "") -> dict[str, Any]:
    """The figures of one run, in seconds; it must neither fail nor change anything."""
    # The clock is the same in both processes, so that starting Python counts, too.
    extra = {"MEASURE_BEGAN": str(time.monotonic()), FILE: file, WITHOUT: without}
    done = subprocess.run(
        [sys.executable, "-m", "tests.rehearsal.measure.deploy", "--child"],
        cwd=deploys.checkout(name),
        env=measured_environment(name, extra),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or "] Success" in done.stderr:
        raise RehearsalError(
            f"{file} failed or changed something: deploy first\n{done.stderr[-2000:]}"
        )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def lines(runs: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """What is printed: medians and ratios, and then each remote command of one run."""
    for figure in ("start of Python", "connecting", "remote commands", "total"):
        medians = {each: statistics.median(run[figure] for run in runs[each]) for each in runs}
        own = medians.pop("")
        others = (f"without {each} {s:6.2f} ({s / own:5.2f})" for each, s in medians.items())
        yield f"  {figure:16} {own:6.2f}   {'   '.join(others)}"
    rest = (r["total"] - r["start of Python"] - r["remote commands"] for r in runs[""])
    yield f"  everything else  {statistics.median(rest):6.2f}"
    for each in ("", "prefetch"):
        commands = runs[each][0]["commands"]
        yield f"  {len(commands)} remote commands{each and f' without {each}'}, in their order:"
        yield from (f"  {seconds * 1000:6.0f} ms  {asker}" for seconds, asker in commands)


def main(name: str, file: str = "deploy.py") -> None:
    run(name, file)
    runs: dict[str, list[dict[str, Any]]] = {each: [] for each in VARIANTS}
    for _ in range(ROUNDS):
        for each in VARIANTS:
            runs[each].append(run(name, file, each))
    print(f"{ROUNDS} runs of {file} without a change over SSH, medians in seconds:")
    print("\n".join(lines(runs)))


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        _measured_run()
    else:
        try:
            main(*(sys.argv[1:] or [state.DEFAULT_NAME]))
        except RehearsalError as error:
            sys.exit(f"error: {error}")
