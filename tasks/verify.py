"""Wait for the server and ask it for a real completion."""

from tasks.shared import notices
from tasks.shared.operations import vllm
from tasks.shared.settings import settings

own = settings()

notices.show()
vllm.answering(
    name="Ask the server for a completion",
    deadline_s=own.ready_timeout_s,
    url=own.url,
    model=own.served_model_name,
)
