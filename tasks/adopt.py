"""Take over from a vLLM that somebody runs by hand: backed up first, replaced only by name."""

from pyinfra import local

from tasks.shared import credentials
from tasks.shared.generation import desired, switches
from tasks.shared.operations import removal, vllm
from tasks.shared.operations.secrets import api_key
from tasks.shared.settings import settings

own = settings()

key = credentials.api_key(own.api_key_file)
generation = desired.generation(own, key)

local.include("tasks/hostkit.py")
local.include("tasks/storage.py")
local.include("tasks/build_vllm.py")
local.include("tasks/model.py")
api_key(name="Write the API key", file=own.api_key_file, key=key)
vllm.generation_staged(name="Stage the generation to take over with", generation=generation)
removal.adopted(
    name="Take over from the one that runs",
    server=own.adopt,
    generation=generation,
    switch=switches.switch(own, "replacing a server that was run by hand"),
)
local.include("tasks/service.py")
