"""The GPUs' state for Prometheus, as nvidia-smi tells it."""

from dataclasses import dataclass

from hostkit.host import gpus
from hostkit.metrics.exposition import Metric, Sample

TIMEOUT_S = 8
"""Prometheus gives up after ten seconds, and hostkit's other figures would be lost with these."""


@dataclass(frozen=True)
class _Field:
    """A field of nvidia-smi's, and the metric that it becomes after multiplication."""

    query: str
    name: str
    help: str
    factor: float = 1


_FIELDS = (
    _Field("memory.total", "memory_total_bytes", "Memory of the GPU.", 1024**2),
    _Field("memory.used", "memory_used_bytes", "Of it, used.", 1024**2),
    _Field("utilization.gpu", "utilization_ratio", "Share of time with a kernel running.", 0.01),
    _Field("temperature.gpu", "temperature_celsius", "Temperature of the GPU."),
    _Field("power.draw", "power_watts", "Power that the card draws."),
    _Field("power.limit", "power_limit_watts", "Power that the card may draw."),
    _Field("clocks.sm", "sm_clock_hertz", "Clock of the multiprocessors.", 1e6),
)
_IDENTITY = ("index", "uuid")


def metrics() -> list[Metric]:
    """All that is known of all GPUs. Raises gpus.Unreadable."""
    query = ",".join([*_IDENTITY, *(field.query for field in _FIELDS)])
    options = ("--format=csv,noheader,nounits",)
    return parse(gpus.smi(f"--query-gpu={query}", *options, timeout_s=TIMEOUT_S))


def parse(text: str) -> list[Metric]:
    """Read nvidia-smi's CSV; what it does not say ([N/A]) is left out. Raises gpus.Unreadable."""
    samples: dict[str, list[Sample]] = {field.name: [] for field in _FIELDS}
    rows = [
        [each.strip() for each in line.split(",")] for line in text.splitlines() if line.strip()
    ]
    for row in rows:
        if len(row) != len(_IDENTITY) + len(_FIELDS):
            raise gpus.Unreadable(f"cannot read what nvidia-smi says: {', '.join(row)[:100]}")
        labels = {"gpu": row[0], "uuid": row[1]}
        for field, said in zip(_FIELDS, row[len(_IDENTITY) :], strict=True):
            value = _number(said)
            if value is not None:
                samples[field.name].append(Sample(value * field.factor, labels))
    if not rows:
        raise gpus.Unreadable("nvidia-smi lists no GPU")
    return [
        Metric(f"vllm_host_gpu_{field.name}", "gauge", field.help, tuple(samples[field.name]))
        for field in _FIELDS
    ]


def _number(said: str) -> float | None:
    try:
        return float(said)
    except ValueError:
        return None
