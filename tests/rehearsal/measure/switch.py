"""How long nobody is served while the server is switched: `python -m tests.rehearsal.measure.switch
[NAME [ROUNDS]]`, against a host that serves, with the stand-in for vLLM or with vLLM.

A client on the host asks /health all along. What is measured: from the last answer of the old
server to the first of the new one, and how much of that the new server's own start is, which
begins when hostkit becomes vLLM and says so in the log. An upgrade switches in the same way.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from .. import deploys, switching
from ..conftest import STANDIN
from ..host import state
from ..host.errors import RehearsalError

START_S = 3.0
"""How long the stand-in pretends to load, in seconds."""

# Prints the longest time between two answers: when it began, when it ended, in Unix seconds.
_CLIENT = """
import http.client, json, sys, threading, time
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
answered, longest = None, (0, 0)
print("asking", flush=True)
while not over.is_set():
    try:
        connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=2)
        connection.request("GET", "/health")
        good = connection.getresponse().status == 200
        connection.close()
    except OSError:
        good = False
    now = time.time()
    if good:
        if answered and now - answered > longest[1] - longest[0]:
            longest = answered, now
        answered = now
    time.sleep(0.01)
print(json.dumps(longest))
"""


@dataclass(frozen=True)
class Gap:
    """A time without a server, in seconds: all of it, and what the new server took for itself."""

    down_s: float
    start_s: float

    @property
    def overhead_s(self) -> float:
        return self.down_s - self.start_s


def measure(host: str, number: int) -> Gap:
    """Switch to a generation and measure the time without an answer."""
    with _asked(host) as gaps:
        status, said = switching.switch(host, number, "--deadline", "300")
        if status:
            raise RehearsalError(f"the switch failed: {said[-2000:]}")
    ((last, first),) = gaps
    began = _became_vllm(host, number)
    if not last < began < first:
        raise RehearsalError(f"the start at {began} is not within the gap from {last} to {first}")
    return Gap(first - last, first - began)


@contextlib.contextmanager
def _asked(host: str) -> Iterator[list[tuple[float, float]]]:
    rehearsal = state.load(host)
    deploys.on_host("cat >/tmp/client.py", host=host, stdin=_CLIENT)
    client = subprocess.Popen(
        rehearsal.ssh_command(f"python3 -IB /tmp/client.py {rehearsal.api_port}"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdin
    assert client.stdout
    gaps: list[tuple[float, float]] = []
    try:
        client.stdout.readline()
        yield gaps
    finally:
        client.stdin.close()
        said = client.stdout.read()
        client.wait()
        deploys.on_host("rm /tmp/client.py", host=host)
    last, first = json.loads(said)
    gaps.append((last, first))


def _became_vllm(host: str, number: int) -> float:
    """When hostkit last said that it becomes this generation's vLLM, in Unix seconds."""
    log = "journalctl --unit=vllm --no-pager --output=json --output-fields=MESSAGE --lines=200"
    entries = [json.loads(line) for line in deploys.on_host(log, host=host).splitlines()]
    said = f"hostkit: generation {number},"
    times = [e for e in entries if isinstance(e["MESSAGE"], str) and e["MESSAGE"].startswith(said)]
    return int(times[-1]["__REALTIME_TIMESTAMP"]) / 1e6


def main(host: str = STANDIN, rounds: str = "5") -> None:
    before = deploys.hostkit_state(host)["running"]
    gaps = []
    try:
        for _ in range(int(rounds)):
            number = switching.variant(host, before, STANDIN_START_S=str(START_S))
            gaps.append(measure(host, number))
    finally:
        switching.switch(host, before, "--deadline", "300")
    print(f"{rounds} switches on {host}, in seconds:")
    for what in ("down_s", "start_s", "overhead_s"):
        seconds = sorted(getattr(gap, what) for gap in gaps)
        middle = statistics.median(seconds)
        print(f"  {what:10} median {middle:6.2f}   {seconds[0]:6.2f} to {seconds[-1]:.2f}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except RehearsalError as error:
        sys.exit(f"error: {error}")
