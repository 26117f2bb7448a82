"""Texts made of templates/ and the settings."""

from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tasks.shared import front_door, metrics, trees
from tasks.shared.engine import serving, start_limit
from tasks.shared.settings import Settings


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader("templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )


def unit(settings: Settings) -> str:
    """The text of vllm.service."""
    return (
        _environment()
        .get_template("vllm.service.j2")
        .render(
            settings=settings,
            start_limit_interval_s=start_limit.interval_s(settings),
            home=serving.HOME,
            kv_dir=serving.kv_dir(settings),
        )
    )


def windows_script(settings: Settings, distribution: str) -> str:
    """The text of windows.ps1; `distribution` is this one's name in Windows, "" for its default."""
    address, port = front_door.reached_at(settings)
    return (
        _environment()
        .get_template("windows.ps1.j2")
        .render(
            settings=settings,
            distribution=distribution,
            address=address,
            port=port,
            lets_others_in=address not in front_door.LOOPBACK,
        )
    )


def prune(settings: Settings) -> dict[str, str] | None:
    """The units that keep the SSD tier within its quota, by name; None without that tier."""
    if not settings.kv_ssd_gb:
        return None
    names = ("vllm-kv-prune.service", "vllm-kv-prune.timer")
    folder = serving.kv_dir(settings)
    return {
        n: _environment().get_template(f"{n}.j2").render(settings=settings, kv_dir=folder)
        for n in names
    }


def watch(settings: Settings) -> dict[str, str] | None:
    """The units that look for a hang, by name; None when nobody is to look."""
    if not settings.hang_after_s:
        return None
    names = ("vllm-watch.service", "vllm-watch.timer")
    return {n: _environment().get_template(f"{n}.j2").render(settings=settings) for n in names}


def guard_unit(settings: Settings, hostkit_digest: str) -> str:
    """The text of vllm-guard.service."""
    template = _environment().get_template("vllm-guard.service.j2")
    return template.render(settings=settings, hostkit_digest=hostkit_digest)


def prometheus(settings: Settings) -> trees.Tree:
    """What Prometheus reads at its start, by file name."""
    template = _environment().get_template("prometheus.yml.j2")
    config = template.render(settings=settings, server=metrics.server(settings))
    return {"prometheus.yml": config, "rules.yml": metrics.rules()}


def prometheus_unit(settings: Settings) -> str:
    """The text of vllm-prometheus.service."""
    template = _environment().get_template("vllm-prometheus.service.j2")
    return template.render(settings=settings, config_digest=trees.digest(prometheus(settings)))


def metrics_unit(settings: Settings, hostkit_digest: str) -> str:
    """The text of vllm-metrics.service."""
    template = _environment().get_template("vllm-metrics.service.j2")
    return template.render(settings=settings, hostkit_digest=hostkit_digest)


def front_door_config(settings: Settings) -> str:
    """The front door's nginx.conf."""
    values = front_door.config_values(settings)
    return _environment().get_template("front-door.conf.j2").render(values)


def front_door_unit(settings: Settings) -> str:
    """The text of vllm-front-door.service."""
    values = front_door.unit_values(settings)
    return _environment().get_template("vllm-front-door.service.j2").render(values)
