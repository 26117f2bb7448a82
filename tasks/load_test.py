"""Measure the server with vLLM's own benchmark, and compare it with the last time."""

from tasks.shared import notices
from tasks.shared.operations import load_test
from tasks.shared.settings import settings

notices.failures()
load_test.measured(name="Measure the server", settings=settings(), wait_s=settings().idle_wait_s)
