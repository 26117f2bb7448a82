"""What real traffic did: figures on the terminal, and a page with pictures. Changes no host."""

import time

from pyinfra import host, logger

from tasks.shared.facts.traffic import TrafficFact
from tasks.shared.settings import settings
from tasks.shared.traffic import report

own = settings()
asked = report.asked(own, time.time())
traffic = host.get_fact(
    TrafficFact, port=own.metrics_port, intervals=asked.intervals, step=asked.step_s
)
found = report.make(host.name, asked, traffic)

for line in found.lines():
    host.log(line, logger.info)
file = report.write(found, host.name)
host.log(f"With pictures: {file}", logger.info)
if seen_from_windows := report.windows_path(file):
    host.log(f"From Windows: {seen_from_windows}", logger.info)
