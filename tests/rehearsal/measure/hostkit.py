"""What hostkit costs on a deployed host: `python -m tests.rehearsal.measure.hostkit [NAME]`.

The start of each command that systemd calls, and what the timers take of one core over a day.
"""

from __future__ import annotations

import re
import statistics
import sys

from .. import deploys
from ..host import state
from ..host.errors import RehearsalError

ROUNDS = 10
COMMANDS = {
    "the start of Python": "python3 -IBc pass",
    "--help, so all imports": "python3 -IB /opt/vllm/hostkit --help",
    "state": "python3 -IB /opt/vllm/hostkit state",
    "before-start": "python3 -IB /opt/vllm/hostkit before-start",
    "sweep": "python3 -IB /opt/vllm/hostkit sweep",
    "watch-progress": "python3 -IB /opt/vllm/hostkit watch-progress --after 300",
}
TIMERS = {"watch-progress": 60.0}
"""The command of each timer, and seconds between two of its runs."""

_TIMED = """
import json, os, resource, subprocess, sys, time
began = time.perf_counter()
subprocess.run(sys.argv[1], shell=True, stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def measure(command: str, name: str) -> tuple[float, float, float]:
    """Medians of wall time in s, processor time in s, and memory in MiB."""
    rows = []
    for _ in range(ROUNDS):
        said = deploys.on_host(f"python3 -IB - '{command}'", host=name, stdin=_TIMED)
        rows.append([float(word) for word in re.findall(r"[\d.]+", said)])
    wall, processor, memory = (statistics.median(column) for column in zip(*rows, strict=True))
    return wall, processor, memory / 1024


def main(name: str) -> None:
    print(f"medians of {ROUNDS} runs:   wall ms   processor ms   memory MiB")
    processor_s = {}
    for what, command in COMMANDS.items():
        wall, processor_s[what], memory = measure(command, name)
        print(f"  {what:24} {wall * 1000:8.0f} {processor_s[what] * 1000:12.0f} {memory:12.0f}")
    for what, period_s in TIMERS.items():
        share = 100 * processor_s[what] / period_s
        print(f"  idle: {what} every {period_s:.0f} s takes {share:.2f} % of one core")


if __name__ == "__main__":
    try:
        main((sys.argv[1:] or [state.DEFAULT_NAME])[0])
    except RehearsalError as error:
        sys.exit(f"error: {error}")
