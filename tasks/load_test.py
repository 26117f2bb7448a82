"""Measure the server with vLLM's own benchmark, and compare it with the last time."""

from tasks.shared import notices
from tasks.shared.operations import load_test
from tasks.shared.settings import settings

notices.failures()
own = settings()
load_test.measured(
    name="Measure the server",
    settings=own,
    wait_s=own.idle_wait_s,
    deadline_s=own.ready_timeout_s,
)
