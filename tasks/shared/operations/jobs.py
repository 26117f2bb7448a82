"""Long work: started on the host as a unit of its own, followed from here."""

import gevent
from pyinfra import host

from tasks.shared.facts.hostkit import JobStatusFact
from tasks.shared.operations.common import Commands, refuse
from tasks.shared.operations.hostkit import Hostkit

POLL_S = 1.0
REPEAT_S = 15.0


def run_job(job: str, *arguments: str) -> Commands:
    """Run a hostkit command as a job and show its progress until it ends; fails as it fails.

    The job goes on when this run is killed; the next run follows the same job. To be used with
    `yield from` as the last thing of an operation.
    """
    yield Hostkit("job", "start", job, "--", *arguments)
    known, shown_at = 0, 0.0
    while True:
        status = host.get_fact(JobStatusFact, job=job, after=known)
        for elapsed_s, text in status.lines:
            host.log(f"{elapsed_s:5.0f} s  {text}")
        known += len(status.lines)
        if status.lines:
            shown_at = status.elapsed_s
        elif status.progress and status.elapsed_s - shown_at >= REPEAT_S:
            shown_at = status.elapsed_s
            host.log(f"{status.elapsed_s:5.0f} s  {status.progress}")
        if status.state != "running":
            break
        gevent.sleep(POLL_S)
    if status.state != "succeeded":
        yield from refuse(f"{job} failed: {status.error or status.state}")
