"""Upgrade to what the settings say: built and tested beside the server, switched to, or back again.

Another version, other patches, a changed setting or model are all the same to it.
"""

from pyinfra import local

from tasks.shared.generation import desired, rollout, switches
from tasks.shared.operations import plans, vllm
from tasks.shared.release import releases
from tasks.shared.settings import settings

own = settings()

generation = desired.generation(own)

plans.agreed(
    name="Show what would change",
    generation=generation,
    release=releases.wanted(own),
    drain_s=own.shutdown_timeout_s,
    expected=own.plan,
)
local.include("tasks/check_host.py")
local.include("tasks/hostkit.py")
local.include("tasks/storage.py")
local.include("tasks/build_vllm.py")
local.include("tasks/model.py")
vllm.generation_staged(name="Stage the generation", generation=generation)
for batch in rollout.batches():
    vllm.switched(
        name=batch.title("Switch to it"),
        generation=generation,
        switch=switches.switch(own, "upgrading the server", go_back=True, compare=True),
        batch=batch,
        again=False,
    )
