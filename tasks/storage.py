"""Folders for the service, for models and for the SSD tier of the KV cache.

Each belongs to the service only where it has to write: root works in the others.
"""

from pyinfra.operations import files

from tasks.shared import models, serving
from tasks.shared.settings import settings

for path in ("/var/lib/vllm", "/var/lib/vllm/health", models.MODELS_DIR):
    files.directory(name=f"Create {path}", path=path, user="root", group="root", mode="755")

files.directory(
    name="Create the service's home", path=serving.HOME, user="vllm", group="vllm", mode="750"
)
if settings().kv_ssd_gb:
    files.directory(
        name="Create the folder of the SSD tier",
        path=serving.kv_dir(settings()),
        user="vllm",
        group="vllm",
        mode="750",
    )
