"""Restart the server on the staged generation: idle check, one watched start."""

from tasks.shared import credentials, desired
from tasks.shared.operations import vllm
from tasks.shared.settings import settings

vllm.restarted(
    name="Restart the server",
    generation=desired.generation(credentials.api_key(settings().api_key_file)),
    deadline_s=settings().ready_timeout_s,
    force=settings().force_restart,
)
