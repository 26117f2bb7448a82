"""How pyinfra reaches a rehearsal host, and what the deploy is told about it."""

import json
from typing import Any

from . import borrowed, smollm2, state


def connection(name: str) -> tuple[str, dict[str, Any]]:
    """The host's name and data as an inventory has them; RehearsalError when it is not there."""
    host = state.load(name)
    links = borrowed.find_links() if host.find_links is None else host.find_links
    return name, {
        "ssh_hostname": host.ssh_hostname,
        "ssh_port": host.ssh_port,
        "ssh_user": "root",
        "ssh_key": str(host.key),
        "ssh_known_hosts_file": str(host.known_hosts),
        "ssh_strict_host_key_checking": "yes",
        "ssh_allow_agent": False,
        "ssh_look_for_keys": False,
        "port": host.api_port,
        "metrics_port": host.metrics_port,
        "metrics_exporter_port": host.exporter_port,
        "model": f"control:{smollm2.folder()}",
        "api_key_file": str(host.folder / "api_key"),
        # Where this machine finds the CPU build of torch when it does not ask PyTorch's index.
        "find_links": list(links),
        **_own(host),
    }


def _own(host: state.Host) -> dict[str, Any]:
    """What this one host is told besides, a stand-in's for example."""
    file = host.folder / "data.json"
    found: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return found
