"""Texts made of templates/ and the settings."""

from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tasks.shared import front_door, metrics, trees
from tasks.shared.engine import serving, start_limit
from tasks.shared.settings import Settings

GUARD = "vllm-guard.service"
METRICS = "vllm-metrics.service"
PROMETHEUS = "vllm-prometheus.service"
SETTLE = "vllm-settle.service"
# Units of a timer, without a suffix.
WATCH = "vllm-watch"
PRUNE = "vllm-kv-prune"


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader("templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )


def _rendered(name: str, **values: Any) -> str:
    return _environment().get_template(f"{name}.j2").render(values)


def _timer(unit: str, **values: Any) -> dict[str, str]:
    names = (f"{unit}.service", f"{unit}.timer")
    return {name: _rendered(name, **values) for name in names}


@cache
def hostkit_digest() -> str:
    """Tells one hostkit from another: what it runs is restarted when it changes."""
    return trees.digest(trees.hostkit())


def unit(settings: Settings) -> str:
    """The text of vllm.service."""
    return _rendered(
        "vllm.service",
        settings=settings,
        start_limit_interval_s=start_limit.interval_s(settings),
        home=serving.HOME,
        kv_dir=serving.kv_dir(settings),
    )


def windows_script(settings: Settings, distribution: str) -> str:
    """The text of windows.ps1; `distribution` is this one's name in Windows, "" for its default."""
    address, port = front_door.reached_at(settings)
    return _rendered(
        "windows.ps1",
        settings=settings,
        distribution=distribution,
        address=address,
        port=port,
        lets_others_in=address not in front_door.LOOPBACK,
    )


def prune(settings: Settings) -> dict[str, str] | None:
    """The units that keep the SSD tier within its quota, by name; None without that tier."""
    if not settings.kv_ssd_gb:
        return None
    return _timer(PRUNE, settings=settings, kv_dir=serving.kv_dir(settings))


def watch(settings: Settings) -> dict[str, str] | None:
    """The units that look for a hang, by name; None when nobody is to look."""
    return _timer(WATCH, settings=settings) if settings.hang_after_s else None


def guard_unit(settings: Settings) -> str:
    """The text of `GUARD`."""
    return _rendered(GUARD, settings=settings, hostkit_digest=hostkit_digest())


def prometheus(settings: Settings) -> trees.Tree:
    """What Prometheus reads at its start, by file name."""
    config = _rendered("prometheus.yml", settings=settings)
    return {"prometheus.yml": config, "rules.yml": metrics.rules()}


def prometheus_unit(settings: Settings) -> str:
    """The text of `PROMETHEUS`."""
    digest = trees.digest(prometheus(settings))
    return _rendered(PROMETHEUS, settings=settings, config_digest=digest)


def metrics_unit(settings: Settings) -> str:
    """The text of `METRICS`."""
    return _rendered(METRICS, settings=settings, hostkit_digest=hostkit_digest())


def front_door_config(settings: Settings, servers: list[str]) -> str:
    """The front door's nginx.conf; `servers`: where vLLM may answer, by preference."""
    return _rendered("front-door.conf", **front_door.config_values(settings, servers))


def front_door_unit(settings: Settings) -> str:
    """The text of the front door's unit."""
    return _rendered(front_door.UNIT, **front_door.unit_values(settings))
