"""Where things lie on the host. HOSTKIT_ROOT moves all of it below another root, for tests."""

import os
from pathlib import Path

ROOT = Path(os.environ.get("HOSTKIT_ROOT", "/"))

OPT = ROOT / "opt/vllm"
HOSTKIT = OPT / "hostkit"
RELEASES = OPT / "releases"
GENERATIONS = OPT / "generations"
CURRENT = OPT / "current"
PREVIOUS = OPT / "previous"
TOOLS = OPT / "tools"
WORK = OPT / "work"
DOWNLOADS = OPT / "cache/downloads"
BUILT = OPT / "cache/built"
TREES = OPT / "build"

ETC = ROOT / "etc/vllm"
SECRETS_ENV = ETC / "secrets.env"
TOKEN = ETC / "hf_token"
NOTIFY = ETC / "notify"
SECRETS = (SECRETS_ENV, TOKEN, NOTIFY)
UNIT_FILE = ROOT / "etc/systemd/system/vllm.service"
RUN = ROOT / "run/vllm"
HEALTH = ROOT / "var/lib/vllm/health"

UNIT = "vllm.service"
UNITS = (
    UNIT,
    "vllm-guard.service",
    "vllm-settle.service",
    "vllm-watch.timer",
    "vllm-watch.service",
    "vllm-kv-prune.timer",
    "vllm-kv-prune.service",
    "vllm-metrics.service",
    "vllm-prometheus.service",
    "vllm-front-door.service",
)
"""All of ours, those that these settings do not ask for, too."""

SERVICE_USER = "vllm"
