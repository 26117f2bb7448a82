"""Prometheus on the host, and what it reads: pure functions."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

FOLDER = "/etc/vllm/prometheus"
RULES = Path("files/metrics/rules.yml")
DASHBOARD = Path("files/metrics/dashboard.json")


def ports(settings: "Settings") -> dict[int, str]:
    """The ports that metrics need, and the setting that decides each; none when they are off."""
    if not settings.metrics:
        return {}
    names = ("metrics_port", "metrics_exporter_port")
    return {getattr(settings, name): name for name in names}


def check(settings: "Settings") -> None:
    """Raises ValueError for two listeners on one port, and for alerts that nobody makes."""
    if not settings.metrics:
        if settings.alertmanager:
            raise ValueError("alertmanager is told by our Prometheus: set metrics = True")
        return
    names = ("port", "metrics_port", "metrics_exporter_port")
    for at, name in enumerate(names):
        for other in names[:at]:
            if getattr(settings, name) == getattr(settings, other):
                raise ValueError(f"{name} and {other} are both {getattr(settings, name)}: set one")


def rules() -> str:
    """The alert rules, as Prometheus reads them."""
    return RULES.read_text(encoding="utf-8")


def dashboard() -> dict[str, object]:
    """The dashboard, for Grafana's import."""
    found: dict[str, object] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found
