"""Go back to the generation before, or to a named one: code and settings together, watched."""

from tasks.shared.generation import rollout, switches
from tasks.shared.operations import vllm
from tasks.shared.settings import settings

own = settings()

for batch in rollout.batches():
    vllm.rolled_back(
        name=batch.title("Roll back"),
        to=own.rollback_to,
        switch=switches.switch(own, "rolling the server back", go_back=True),
        batch=batch,
    )
