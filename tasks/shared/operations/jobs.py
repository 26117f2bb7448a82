"""Long work: started on the host as a unit of its own, followed from here."""

import gevent
from pyinfra import host

from tasks.shared.facts.hostkit import JobStatusFact, hostkit
from tasks.shared.operations.common import Commands, refuse

POLL_S = 1.0
REPEAT_S = 15.0


def run_job(job: str, *arguments: str) -> Commands:
    """Run a hostkit command as a job and show its progress until it ends; fails as it fails.

    The job goes on when this run is killed; the next run follows the same job. To be used with
    `yield from` as the last thing of an operation.
    """
    yield hostkit("job", "start", job, "--", *arguments)
    shown, shown_at = "", 0.0
    while True:
        status = host.get_fact(JobStatusFact, job=job)
        due = status.elapsed_s - shown_at >= REPEAT_S
        if status.progress and (status.progress != shown or due):
            shown, shown_at = status.progress, status.elapsed_s
            host.log(f"{status.elapsed_s:5.0f} s  {status.progress}")
        if status.state != "running":
            break
        gevent.sleep(POLL_S)
    if status.state != "succeeded":
        yield from refuse(f"{job} failed: {status.error or status.state}")
