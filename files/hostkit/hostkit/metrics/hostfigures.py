"""Figures of the service and its machine, put together from what hostkit keeps."""

import time
from collections.abc import Mapping
from typing import Any

from hostkit.generation import generations, starts
from hostkit.health import failures
from hostkit.host import guardlog, memory, paths, units
from hostkit.metrics.exposition import Metric, Sample, counter, gauge
from hostkit.serving import goodstart

MIB = 1024**2
STATES = ("active", "activating", "deactivating", "failed", "inactive")
_PATIENCE_S = 3600
_POOL_LINE = "KV cache size: [0-9,]* tokens"


def service() -> list[Metric]:
    """The unit's state, its starts, and the generation that is current."""
    shown = units.show("ActiveState", "NRestarts", "MainPID", "ExecMainStartTimestamp")
    began = shown["ExecMainStartTimestamp"].removeprefix("@")
    is_running = shown["MainPID"] not in ("", "0")
    return [
        Metric(
            "vllm_host_service_state",
            "gauge",
            "1 for the state in which systemd has vllm.service.",
            tuple(Sample(shown["ActiveState"] == each, {"state": each}) for each in STATES),
        ),
        gauge(
            "vllm_host_service_start_timestamp_seconds",
            "When the server's process began.",
            float(began) if is_running and began.isdecimal() else None,
        ),
        counter(
            "vllm_host_service_restarts_total",
            "Starts that systemd made by itself since one that was asked for.",
            int(shown["NRestarts"] or 0),
        ),
        *_limit(),
        _generation(),
    ]


def _limit() -> list[Metric]:
    limit = _note().get("start_limit")
    if not limit:
        return []
    window = starts.window_s(limit, starts.slowest_s())
    count = starts.within(starts.times(), window, time.monotonic())
    return [
        gauge("vllm_host_starts_in_window", "Starts that count towards the start limit.", count),
        gauge("vllm_host_start_limit_burst", "Starts that the limit allows.", limit["burst"]),
        gauge("vllm_host_start_limit_window_seconds", "Within this time.", window),
    ]


def _generation() -> Metric:
    number = generations.linked(paths.CURRENT)
    release = (generations.folder(number) / "release").resolve().name if number is not None else ""
    return gauge(
        "vllm_host_generation_info",
        "The generation that a start uses, and its release.",
        None if number is None else 1,
        generation=str(number),
        release=release,
    )


def _note() -> dict[str, Any]:
    number = generations.linked(paths.CURRENT)
    return generations.note(number) if number is not None else {}


def gpus_needed() -> int:
    """How many GPUs the current generation computes on; 0 for a CPU build."""
    return int(_note().get("needs", {}).get("gpus", 0))


def failures_kept() -> list[Metric]:
    """What has failed, and whether anybody has seen it."""
    latest, shown = failures.latest(), failures.to_show()
    return [
        counter(
            "vllm_host_failures_total",
            "Series of failures, each from a good state to the next one.",
            latest["number"] if latest else 0,
        ),
        gauge(
            "vllm_host_last_failure_timestamp_seconds",
            "When the newest series of failures began.",
            latest["at"] if latest else None,
        ),
        gauge(
            "vllm_host_failure_unseen",
            "1 while the newest failure has been shown to nobody; hostkit failures shows it.",
            1 if shown else None,
            **{"class": shown["class"] if shown else ""},
        ),
    ]


def guard_actions() -> list[Metric]:
    """When the memory guard last ended something."""
    samples = tuple(Sample(event["at"], {"name": name}) for name, event in guardlog.kept().items())
    return [
        Metric(
            "vllm_host_guard_action_timestamp_seconds",
            "gauge",
            "When the memory guard last ended compilers of this unit or job.",
            samples,
        )
    ]


def machine() -> list[Metric]:
    """The machine's memory."""
    now = memory.parse(memory.MEMINFO.read_bytes())
    return [
        gauge("vllm_host_memory_total_bytes", "Memory of the machine.", now.total * MIB),
        gauge("vllm_host_memory_available_bytes", "Of it, available.", now.available * MIB),
    ]


class Pool:
    """The KV pool of the server that runs, out of its log, beside that of the last good start."""

    def __init__(self) -> None:
        self._invocation = ""
        self._tokens: int | None = None
        self._first_look = 0.0

    def metrics(self) -> list[Metric]:
        number = generations.linked(paths.CURRENT)
        before = generations.linked(paths.PREVIOUS)
        good = goodstart.last_good(number, before) if number is not None else None
        return [
            gauge(
                "vllm_host_kv_pool_tokens",
                "Tokens for which the running server's KV pool has room.",
                self._running(),
            ),
            gauge(
                "vllm_host_kv_pool_good_tokens",
                "The same at the last good start.",
                good.kv_tokens if good else None,
            ),
        ]

    def _running(self) -> int | None:
        invocation = units.show("InvocationID")["InvocationID"]
        if invocation != self._invocation:
            self._invocation, self._tokens, self._first_look = invocation, None, time.monotonic()
        waited = time.monotonic() - self._first_look
        if invocation and self._tokens is None and waited < _PATIENCE_S:
            match = f"_SYSTEMD_INVOCATION_ID={invocation}"
            lines = units.journalctl("--quiet", "--lines=1", f"--grep={_POOL_LINE}", match)
            self._tokens = goodstart.of(lines, 0).kv_tokens
        return self._tokens


def successes(collectors: Mapping[str, bool]) -> Metric:
    """Which parts of these figures could be read."""
    return Metric(
        "vllm_host_collector_success",
        "gauge",
        "1 for a part of the host's figures that could be read, 0 for one that could not.",
        tuple(Sample(success, {"collector": name}) for name, success in collectors.items()),
    )
