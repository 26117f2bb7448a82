"""What the memory guard costs and how fast it is: `python -m tests.rehearsal.measure.guard [NAME]`.

Against a deployed host. Cost: the processor time of vllm-guard.service over a minute. Reaction: a
second guard with a floor just below what is available, and a script called nvcc that eats memory in
a unit of its own; from the first moment below the floor to the moment the script is gone.
"""

from __future__ import annotations

import json
import sys

from .. import deploys, memory
from ..host import state
from ..host.errors import RehearsalError

ROUNDS = 3
SECONDS = 60

_COST = f"""
import subprocess, time
show = ["systemctl", "show", "--property=MainPID", "--value", "vllm-guard.service"]
pid = subprocess.run(show, capture_output=True, text=True).stdout.strip()
def exact():
    return int(open(f"/proc/{{pid}}/schedstat").read().split()[0]) / 1e9
before = exact()
time.sleep({SECONDS})
resident = [l.split()[1] for l in open(f"/proc/{{pid}}/status") if l.startswith("VmRSS")][0]
print((exact() - before) / {SECONDS} * 100, int(resident) / 1024)
"""

_REACTION = """
import json, os, subprocess, time
def available():
    for line in open("/proc/meminfo"):
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) // 1024
floor = available() - 400
unit = "vllm-measure.service"
guard = subprocess.Popen(
    ["python3", "-IB", "/opt/vllm/hostkit", "guard", "--unit", unit, "--floor-mib", str(floor)],
    stdout=subprocess.DEVNULL)
time.sleep(1)
subprocess.run(["systemd-run", "--quiet", "--collect", f"--unit={unit}", "/srv/eater/nvcc"])
low = gone = None
until = time.monotonic() + 30
while gone is None and time.monotonic() < until:
    if low is None and available() < floor:
        low = time.monotonic()
    state = subprocess.run(["systemctl", "is-active", unit], capture_output=True, text=True).stdout
    if low is not None and state.strip() != "active":
        gone = time.monotonic()
    time.sleep(0.01)
guard.kill()
subprocess.run(["systemctl", "stop", unit], stderr=subprocess.DEVNULL)
print(json.dumps(None if low is None or gone is None else gone - low))
"""


def _on_host(host: str, script: str) -> str:
    return deploys.on_host("python3 -IB -", host=host, stdin=script)


def _main() -> int:
    host = sys.argv[1] if len(sys.argv) > 1 else state.DEFAULT_NAME
    memory.put_eater(host, "/srv/eater/nvcc")
    share, resident = map(float, _on_host(host, _COST).split())
    print(f"cost: {share:.3f} % of a core, {resident:.0f} MiB resident, over {SECONDS} s")
    times = [json.loads(_on_host(host, _REACTION)) for _ in range(ROUNDS)]
    print("reaction:", ", ".join("none" if t is None else f"{t:.1f} s" for t in times))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(_main())
    except RehearsalError as error:
        sys.exit(f"error: {error}")
