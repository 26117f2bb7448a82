"""Folders for the service, for models and for the SSD tier of the KV cache, and that tier's limits.

Each belongs to the service only where it has to write: root works in the others.
"""

from io import StringIO

from pyinfra import host
from pyinfra.operations import files

from tasks.shared import models, templates
from tasks.shared.engine import kv_tier, serving
from tasks.shared.facts.hostkit import HostStateFact
from tasks.shared.operations import units
from tasks.shared.settings import settings

own = settings()
still_limited = kv_tier.still_limited(own, host.get_fact(HostStateFact))

for path in ("/var/lib/vllm", "/var/lib/vllm/health", models.MODELS_DIR):
    files.directory(name=f"Create {path}", path=path, user="root", group="root", mode="755")

files.directory(
    name="Create the service's home", path=serving.HOME, user="vllm", group="vllm", mode="750"
)
if own.kv_ssd_gb:
    files.directory(
        name="Create the folder of the SSD tier",
        path=serving.kv_dir(own),
        user="vllm",
        group="vllm",
        mode="750",
    )
    files.put(
        name="Mark it as one in which hostkit may remove blocks",
        src=StringIO("hostkit keeps this folder within the limits of /etc/vllm/kv-tier.json.\n"),
        dest=kv_tier.marker(own),
        mode="644",
        create_remote_dir=False,
    )
    files.put(
        name="Write the limits of the SSD tier",
        src=StringIO(kv_tier.limits(own)),
        dest=kv_tier.LIMITS,
        mode="644",
        create_remote_dir=False,
    )
elif not still_limited:
    files.file(name="Set no limits for an SSD tier", path=kv_tier.LIMITS, present=False)
if not still_limited:
    units.timer(
        name="Keep the SSD tier within its limits",
        unit=templates.PRUNE,
        files=templates.prune(own),
    )
