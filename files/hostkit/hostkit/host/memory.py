"""How much memory the machine has left, and when that is too little: pure decisions.

A sample is low when MemAvailable is below the floor, or when it is below twice the floor and the
machine already pays for it: swap is nearly full, or tasks wait for memory (PSI). The third low
sample in a row calls for action: one alone may be a file that is being written.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
PRESSURE = Path("/proc/pressure/memory")

INTERVAL_S = 0.5
LOW_SAMPLES = 3
JOB_MIB = 12 * 1024
"""What one compiler process of vLLM's own sources may take."""

_HIGHEST_FLOOR_MIB = 3 * 1024
_FULL_SWAP = 0.9
_HIGH_PRESSURE = 20.0
_FIELDS = re.compile(rb"^(MemTotal|MemAvailable|SwapTotal|SwapFree):\s+(\d+) kB$", re.MULTILINE)
_FULL_AVG10 = re.compile(rb"^full avg10=([\d.]+)", re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    """The machine's memory at one moment; MiB, and the share of time lost to waiting in percent."""

    total: int
    available: int
    swap_total: int = 0
    swap_free: int = 0
    pressure: float = 0.0


def parse(meminfo: bytes, pressure: bytes = b"") -> Sample:
    """Read the kernel's texts; a kernel without PSI has no pressure to tell."""
    mib = {name.decode(): int(kib) // 1024 for name, kib in _FIELDS.findall(meminfo)}
    full = _FULL_AVG10.search(pressure)
    return Sample(
        mib["MemTotal"],
        mib["MemAvailable"],
        mib.get("SwapTotal", 0),
        mib.get("SwapFree", 0),
        float(full[1]) if full else 0.0,
    )


def default_floor(total_mib: int) -> int:
    """What must stay available, in MiB: an eighth of the machine, at most 3 GiB."""
    return min(total_mib // 8, _HIGHEST_FLOOR_MIB)


def low(sample: Sample, floor_mib: int) -> str:
    """Why a sample is low; empty when it is not."""
    left = f"{sample.available} MiB of memory are available"
    if sample.available < floor_mib:
        return f"{left}, the floor is {floor_mib} MiB"
    if sample.available < 2 * floor_mib:
        if sample.swap_total and sample.swap_free < (1 - _FULL_SWAP) * sample.swap_total:
            return f"{left} and {sample.swap_free} of {sample.swap_total} MiB of swap are free"
        if sample.pressure > _HIGH_PRESSURE:
            return f"{left} and tasks wait for memory {sample.pressure:.0f} % of the time"
    return ""


class Watch:
    """Counts low samples in a row."""

    def __init__(self, floor_mib: int) -> None:
        self.floor_mib = floor_mib
        self._count = 0

    def feed(self, sample: Sample) -> str:
        """Why action is called for with this sample; empty when it is not."""
        why = low(sample, self.floor_mib)
        self._count = self._count + 1 if why else 0
        if self._count < LOW_SAMPLES:
            return ""
        self._count = 0
        return why


class Reader:
    """Takes samples; the kernel's files stay open, so that one costs a few microseconds."""

    def __init__(self, meminfo: Path = MEMINFO, pressure: Path = PRESSURE) -> None:
        self._meminfo = os.open(meminfo, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._pressure = os.open(pressure, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._pressure = -1

    def sample(self) -> Sample:
        return parse(os.pread(self._meminfo, 4096, 0), self._read_pressure())

    def close(self) -> None:
        for file in (self._meminfo, self._pressure):
            if file >= 0:
                os.close(file)

    def _read_pressure(self) -> bytes:
        try:
            return os.pread(self._pressure, 512, 0) if self._pressure >= 0 else b""
        except OSError:  # PSI is compiled in, and switched off on the kernel's command line
            return b""


@dataclass(frozen=True)
class Jobs:
    """How many compiler processes fit, and the arithmetic that says so."""

    fit: int
    arithmetic: str


def jobs(sample: Sample, floor_mib: int) -> Jobs:
    """The compiler processes that memory has room for. One is always tried, under the guard."""
    room = sample.available - floor_mib
    fit = max(1, room // JOB_MIB)
    return Jobs(
        fit,
        f"({sample.available} MiB available - {floor_mib} MiB floor)"
        f" / {JOB_MIB} MiB a compiler = {max(room, 0) / JOB_MIB:.1f}: {fit} at once",
    )


def describe(sample: Sample) -> Mapping[str, float]:
    """A sample as plain data, for records."""
    return {
        "available_mib": sample.available,
        "swap_free_mib": sample.swap_free,
        "pressure_percent": sample.pressure,
    }
