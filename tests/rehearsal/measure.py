"""How long a deploy without a change takes over SSH, how many remote commands it needs, and where
the time goes: `python -m tests.rehearsal.measure [NAME [TASK]]`, against a deployed host. With
tasks/check_host.py as TASK: how long it takes to learn everything about a host.

Runs with and without TCP_NODELAY take turns, so that their ratio holds on a noisy machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from . import deploys, state

ROUNDS = 5
STOCK = "MEASURE_STOCK_SSH"
FILE = "MEASURE_FILE"


def _measured_run() -> None:
    """The child: pyinfra with a clock around connecting and around every remote command."""
    from pyinfra.connectors.ssh import SSHConnector
    from pyinfra_cli.main import main

    began, imported = float(os.environ["MEASURE_BEGAN"]), time.monotonic()
    commands: list[tuple[float, str]] = []
    connected: list[float] = []

    def timed_connect(self: SSHConnector) -> None:
        begin = time.perf_counter()
        connect(self)
        connected.append(time.perf_counter() - begin)

    def timed_command(self: SSHConnector, command: Any, *args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        try:
            return run_shell_command(self, command, *args, **kwargs)
        finally:
            commands.append((time.perf_counter() - begin, str(command)))

    connect, run_shell_command = SSHConnector.connect, SSHConnector.run_shell_command
    SSHConnector.connect = timed_connect  # type: ignore[method-assign]
    SSHConnector.run_shell_command = timed_command  # type: ignore[method-assign]
    if os.environ.get(STOCK):
        from tasks.shared import ssh

        ssh.use_nodelay = lambda: None
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


def _run(name: str, file: str, *, stock: bool) -> dict[str, Any]:
    # The clock is the same in both processes, so that starting Python counts, too.
    extra = {"MEASURE_BEGAN": str(time.monotonic()), FILE: file} | ({STOCK: "1"} if stock else {})
    done = subprocess.run(
        [sys.executable, "-m", "tests.rehearsal.measure", "--child"],
        cwd=state.REPOSITORY,
        env=deploys.environment(name, extra),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or "] Success" in done.stderr:
        sys.exit(f"{file} failed or changed something: deploy first\n{done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main(name: str, file: str = "deploy.py") -> None:
    _run(name, file, stock=False)
    ours, stock = [], []
    for _ in range(ROUNDS):
        ours.append(_run(name, file, stock=False))
        stock.append(_run(name, file, stock=True))
    print(f"{ROUNDS} runs of {file} without a change over SSH, medians in seconds:")
    for figure in ("start of Python", "connecting", "remote commands", "total"):
        one, two = (statistics.median(run[figure] for run in runs) for runs in (ours, stock))
        print(f"  {figure:16} {one:6.2f}   without TCP_NODELAY {two:6.2f}   ratio {two / one:5.2f}")
    rest = statistics.median(r["total"] - r["start of Python"] - r["remote commands"] for r in ours)
    print(f"  everything else  {rest:6.2f}")
    print(f"  {len(ours[0]['commands'])} remote commands; the slowest:")
    for seconds, command in sorted(ours[0]["commands"], reverse=True)[:8]:
        print(f"  {seconds * 1000:6.0f} ms  {' '.join(command.split())[:90]}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        _measured_run()
    else:
        main(*(sys.argv[1:] or [state.DEFAULT_NAME]))
