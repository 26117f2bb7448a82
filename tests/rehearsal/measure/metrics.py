"""What metrics cost on a deployed host: `python -m tests.rehearsal.measure.metrics [NAME]`."""

from __future__ import annotations

import os
import sys
import time

from .. import deploys, prometheus
from ..host import state
from ..host.errors import RehearsalError

UNITS = ("vllm-prometheus", "vllm-metrics")
SECONDS = 120


def used(unit: str, name: str) -> tuple[float, float]:
    """Processor seconds since its start, ended children included, and memory in MiB."""
    pid = deploys.on_host(f"systemctl show {unit} --property=MainPID --value", host=name)
    fields = deploys.on_host(f"cat /proc/{pid}/stat", host=name).rpartition(") ")[2].split()
    ticks = sum(int(field) for field in fields[11:15])
    pages = int(fields[21])
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


def main(name: str) -> None:
    before = {unit: used(unit, name)[0] for unit in UNITS}
    began = time.monotonic()
    time.sleep(SECONDS)
    for unit in UNITS:
        processor_s, memory = used(unit, name)
        share = 100 * (processor_s - before[unit]) / (time.monotonic() - began)
        print(f"{unit}: {share:.2f} % of one core, {memory:.0f} MiB")
    disk = deploys.on_host("du -sm /var/lib/vllm/prometheus | cut -f1", host=name)
    counted = prometheus.ask(name, "status/tsdb")["headStats"]["numSeries"]
    print(f"on the disk: {disk} MiB; {counted} series")


if __name__ == "__main__":
    try:
        main((sys.argv[1:] or [state.DEFAULT_NAME])[0])
    except RehearsalError as error:
        sys.exit(f"error: {error}")
