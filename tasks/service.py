"""The API key and the generation, its unit included; a host that serves nothing is started."""

from pyinfra.operations import files, systemd

from tasks.shared import credentials, notices, templates
from tasks.shared.facts.units import UNITS_DIR
from tasks.shared.generation import desired
from tasks.shared.operations import units, vllm
from tasks.shared.operations.secrets import api_key
from tasks.shared.settings import settings

own = settings()

notices.show()
key = credentials.api_key(own.api_key_file)
generation = desired.generation(own, key)

api_key(name="Write the API key", file=own.api_key_file, key=key)
vllm.generation_staged(name="Stage the generation", generation=generation)
units.in_force(name="Keep the current generation's unit in force")
vllm.started_if_nothing_serves(name="Start the server", generation=generation)
files.put(
    name="Install what ends an interrupted switch at boot",
    src=f"templates/{templates.SETTLE}",
    dest=f"{UNITS_DIR}/{templates.SETTLE}",
    mode="644",
    create_remote_dir=False,
)
systemd.service(
    name="End an interrupted switch at boot",
    service=templates.SETTLE,
    running=None,
    enabled=True,
)
systemd.service(name="Start the server at boot", service="vllm.service", running=None, enabled=True)
