"""Replace the API key by a new one, and restart each server so that it holds.

The restart brings the settings as they are now into force, too. The key before stays beside the new
one in the key file's folder, and is what a server wants until it is restarted.
"""

from tasks.shared import credentials, notices
from tasks.shared.generation import desired, rollout, switches
from tasks.shared.operations import vllm
from tasks.shared.operations.secrets import api_key
from tasks.shared.settings import settings

own = settings()

notices.show()
key = credentials.api_key(own.api_key_file, rotate=True)
generation = desired.generation(own, key)
switch = switches.switch(own, "replacing the API key")

vllm.generation_staged(name="Stage the generation with the new key", generation=generation)
vllm.switchable(
    name="Make sure that the server may be restarted", generation=generation, switch=switch
)
api_key(name="Write the new API key", file=own.api_key_file, key=key)
for batch in rollout.batches():
    vllm.switched(
        name=batch.title("Restart the server with the new key"),
        generation=generation,
        switch=switch,
        batch=batch,
    )
