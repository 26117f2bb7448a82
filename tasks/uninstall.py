"""Remove the service and its files; models and KV only by name. What is kept is listed."""

from tasks.shared.engine import serving
from tasks.shared.operations import removal
from tasks.shared.settings import settings

own = settings()

removal.uninstalled(
    name="Uninstall",
    also=own.uninstall_also,
    kv_dir=serving.kv_dir(own),
    force=own.force == "yes",
)
