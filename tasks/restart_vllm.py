"""Restart the server on the staged generation: idle check, one watched start, host by host."""

from tasks.shared import credentials, notices
from tasks.shared.generation import desired, rollout, switches
from tasks.shared.operations import vllm
from tasks.shared.settings import settings

notices.failures()
generation = desired.generation(credentials.api_key(settings().api_key_file))

for batch in rollout.batches():
    vllm.switched(
        name=batch.title("Restart the server"),
        generation=generation,
        switch=switches.switch(settings(), "restarting the server"),
        batch=batch,
    )
