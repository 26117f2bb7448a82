"""The way out, as the deploy was told it: for the commands that fetch something, and only those.

The server itself never gets a proxy: it fetches nothing.
"""

import os
from collections.abc import MutableMapping

from hostkit.host import paths

ENVIRONMENT = paths.ETC / "network.env"
CERTIFICATES = paths.ROOT / "usr/local/share/ca-certificates/vllm-deploy"


def enter(environ: MutableMapping[str, str] = os.environ) -> None:
    """Put proxy and certificates into the environment; what it says about them gives way."""
    if not ENVIRONMENT.is_file():
        return
    for line in ENVIRONMENT.read_text("utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            environ[name] = value
