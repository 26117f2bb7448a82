"""Prometheus on loopback, which keeps the server's and the host's figures and judges them."""

from pyinfra.operations import files

from tasks.shared import metrics, templates
from tasks.shared.operations import apt, units
from tasks.shared.operations import trees as tree_operations
from tasks.shared.settings import settings

own = settings()

if own.metrics:
    # As it comes, the package's own service starts at once, and on all addresses.
    apt.installed(
        name="Install Prometheus, its own service masked",
        packages=["prometheus"],
        masked=["prometheus.service"],
    )
    units.running(
        name="Serve the host's figures",
        unit=templates.METRICS,
        text=templates.metrics_unit(own),
    )
    tree_operations.folder(
        name="Write what Prometheus reads, and when it alerts",
        path=metrics.FOLDER,
        tree=templates.prometheus(own),
    )
    units.running(
        name="Run Prometheus", unit=templates.PROMETHEUS, text=templates.prometheus_unit(own)
    )
else:
    for unit in (templates.PROMETHEUS, templates.METRICS):
        units.absent(name=f"Run no {unit}", unit=unit)
    files.directory(name="Give Prometheus nothing to read", path=metrics.FOLDER, present=False)
