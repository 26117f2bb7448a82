"""Restart the server on the staged generation: idle check, one watched start, host by host."""

from tasks.shared import notices
from tasks.shared.generation import desired, rollout, switches
from tasks.shared.operations import vllm
from tasks.shared.settings import settings

own = settings()

notices.show()
generation = desired.generation(own)

for batch in rollout.batches():
    vllm.switched(
        name=batch.title("Restart the server"),
        generation=generation,
        switch=switches.switch(own, "restarting the server"),
        batch=batch,
        here=True,
    )
