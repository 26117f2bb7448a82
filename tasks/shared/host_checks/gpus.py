"""The GPUs, each by itself: the weakest decides. And the packages that get into their way."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.shared import cuda
from tasks.shared.engine import serving
from tasks.shared.facts.machine import Machine
from tasks.shared.host_checks.findings import (
    Finding,
    is_below,
    ok,
    parts,
    refusal,
    threshold,
    warning,
)

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

_FIELDS = 8


@dataclass(frozen=True)
class Gpu:
    """A line of nvidia-smi. Numbers that it cannot tell, [N/A], are None."""

    index: int
    name: str
    compute_capability: str
    total_mib: int | None
    free_mib: int | None
    lanes: int | None
    most_lanes: int | None
    driver: str


def parse(output: str) -> list[Gpu]:
    """The GPUs in what nvidia-smi printed, by index; other lines are its complaints."""
    found = []
    for row in csv.reader(output.splitlines(), skipinitialspace=True):
        if len(row) == _FIELDS and row[0].isdecimal():
            total, free, lanes, most = (int(t) if t.isdecimal() else None for t in row[3:7])
            found.append(Gpu(int(row[0]), row[1], row[2], total, free, lanes, most, row[7]))
    return sorted(found, key=lambda gpu: gpu.index)


def is_blackwell(machine: Machine) -> bool:
    """Has the machine a GPU of the RTX 50 series? One that cannot be asked is taken for it."""
    gpus = parse(machine.gpus)
    return not gpus or any(parts(gpu.compute_capability) >= (12,) for gpu in gpus)


def judge(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    """nvidia-smi, number, and for each GPU that is used: driver, kind, memory, lanes."""
    if settings.accelerator != "cuda":
        return
    yield from _packages(machine, settings)
    yield from _apt_sources(machine, settings)
    yield from _toolkit(machine, settings)
    gpus = parse(machine.gpus)
    if not machine.smi or not gpus:
        yield _none(machine, settings)
        return
    if len(gpus) < settings.gpus:
        yield refusal(
            "GPUs",
            f"{len(gpus)}: {', '.join(gpu.name for gpu in gpus)}",
            str(settings.gpus),
            f"set gpus = {len(gpus)}, or look in Windows' device manager for the others",
        )
    else:
        unused = f", of which {settings.gpus} are used" if len(gpus) > settings.gpus else ""
        yield ok("GPUs", f"{len(gpus)}{unused}")
    used = gpus[: settings.gpus]
    for gpu in used:
        yield from _one(gpu, machine, settings)
    yield from _memory_setting(used, settings)


def _none(machine: Machine, settings: "Settings") -> Finding:
    windows = settings.wsl2
    remedy = (
        "install NVIDIA's driver in Windows, none in WSL, then run `wsl --shutdown` in Windows"
        if windows
        else "install NVIDIA's driver 580 or newer, and boot again"
    )
    if machine.smi:
        said = " ".join(machine.gpus.split())[:100] or "nothing"
        return refusal("GPUs", f"{machine.smi} says: {said}", "a GPU", remedy)
    looked = "/usr/lib/wsl/lib/nvidia-smi" if windows else "/usr/bin/nvidia-smi"
    return refusal("GPUs", f"there is no {looked}", "a GPU and its driver", remedy)


def _one(gpu: Gpu, machine: Machine, settings: "Settings") -> Iterator[Finding]:
    what = f"GPU {gpu.index}"
    yield from _driver(gpu, what, settings)
    yield from _kind(gpu, what)
    yield from _memory(gpu, what, machine, settings)
    yield from _lanes(gpu, what, settings)


def _driver(gpu: Gpu, what: str, settings: "Settings") -> Iterator[Finding]:
    if is_below(gpu.driver, "driver_refused_below"):
        where = "in Windows" if settings.wsl2 else "on the host"
        yield refusal(
            f"{what} driver",
            gpu.driver,
            f"{threshold('driver_refused_below')} or newer",
            f"CUDA {cuda.version(settings.vllm_version)} needs it: update NVIDIA's driver {where}",
        )
    else:
        yield ok(f"{what} driver", gpu.driver)


def _kind(gpu: Gpu, what: str) -> Iterator[Finding]:
    capability = gpu.compute_capability
    found = f"{gpu.name}, compute capability {capability}"
    if is_below(capability, "compute_capability_refused_below"):
        yield refusal(
            what,
            found,
            f"{threshold('compute_capability_refused_below')} or higher",
            "take it out of use (gpus): it has neither bfloat16 nor what the attention needs",
        )
    elif parts(capability) != parts(threshold("compute_capability_tested")):
        yield warning(
            what,
            found,
            f"{threshold('compute_capability_tested')}, which this profile is made for",
            "try it: nothing here has been measured on it",
        )
    else:
        yield ok(what, found)


def _memory(gpu: Gpu, what: str, machine: Machine, settings: "Settings") -> Iterator[Finding]:
    if gpu.total_mib is None or gpu.free_mib is None:
        yield refusal(
            f"{what} memory",
            "nvidia-smi cannot read it",
            "MiB",
            "reset the GPU: run `wsl --shutdown` in Windows, or boot again",
        )
        return
    if machine.serves:
        yield ok(f"{what} memory", f"{gpu.total_mib} MiB; vllm.service runs on it")
        return
    share = settings.gpu_memory_utilization or settings.safe_utilization
    needed = int(gpu.total_mib * share)
    found = f"{gpu.free_mib} of {gpu.total_mib} MiB are free"
    if gpu.free_mib < needed:
        yield refusal(
            f"{what} memory",
            found,
            f"{needed} MiB free ({share:.2f} of it)",
            "end what uses the GPU, in Windows too, or lower gpu_memory_utilization to "
            f"{int(gpu.free_mib / gpu.total_mib * 100) / 100:.2f}",
        )
    else:
        yield ok(f"{what} memory", found)


def _lanes(gpu: Gpu, what: str, settings: "Settings") -> Iterator[Finding]:
    if gpu.lanes is None:
        yield ok(f"{what} PCIe", "nvidia-smi does not tell the width")
    elif settings.gpus > 1 and gpu.lanes < threshold("pcie_lanes_warned_below"):
        most = f", the card could use x{gpu.most_lanes}" if gpu.most_lanes else ""
        yield warning(
            f"{what} PCIe",
            f"x{gpu.lanes}{most}",
            f"x{threshold('pcie_lanes_warned_below')} or wider",
            "expect all-reduce to take up to half of a mixed step; put the card into a wider slot "
            "where the board has one. It works as it is",
        )
    else:
        yield ok(f"{what} PCIe", f"x{gpu.lanes}")


def _memory_setting(gpus: list[Gpu], settings: "Settings") -> Iterator[Finding]:
    totals = [gpu.total_mib for gpu in gpus if gpu.total_mib is not None]
    if not totals:
        return
    smallest = min(totals)
    if smallest < settings.gpu_memory_mib:
        yield refusal(
            "gpu_memory_mib",
            f"the smallest GPU has {smallest} MiB",
            f"{settings.gpu_memory_mib}, as set",
            f"set gpu_memory_mib = {smallest}: what vLLM may take is derived from it",
        )
    elif smallest > settings.gpu_memory_mib:
        yield warning(
            "gpu_memory_mib",
            f"the smallest GPU has {smallest} MiB",
            f"{settings.gpu_memory_mib}, as set",
            f"set gpu_memory_mib = {smallest}: the rest would lie idle",
        )
    else:
        yield ok("gpu_memory_mib", f"{smallest}, as set")


def _packages(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    listing = machine.packages.splitlines()
    drivers = cuda.installed_drivers(listing)
    if settings.wsl2 and drivers:
        yield refusal(
            "driver packages",
            f"{', '.join(drivers[:4])}{' …' if len(drivers) > 4 else ''}",
            "none under WSL2",
            f"they hide Windows' driver from every program: sudo apt-get purge {' '.join(drivers)}",
        )
    elif settings.wsl2 and machine.libcuda.strip():
        files = machine.libcuda.split()
        yield refusal(
            "driver files",
            ", ".join(files),
            "none under WSL2",
            f"a Linux driver left them, and they hide Windows': sudo rm {' '.join(files)}",
        )
    else:
        yield ok(
            "driver packages", "none hides the driver of Windows" if settings.wsl2 else "allowed"
        )
    if any(line.split()[:2] == ["ii", "nvidia-cuda-toolkit"] for line in listing):
        yield warning(
            "nvidia-cuda-toolkit",
            "is installed: the distribution's own, older nvcc comes first on PATH",
            "not installed",
            "sudo apt-get purge nvidia-cuda-toolkit",
        )


def _apt_sources(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    repository = cuda.repository(settings, machine.os)
    if repository is None:
        return
    others = cuda.other_sources(machine.apt_sources, repository)
    if others:
        yield refusal(
            "apt sources",
            f"{', '.join(others)} names {repository.url}",
            "only what tasks/cuda.py writes: with two keys for it, apt does nothing at all",
            cuda.remove_sources(others),
        )
    else:
        yield ok("apt sources", "no second one of the CUDA repository")


def _toolkit(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    wanted = cuda.version(settings.vllm_version)
    found = cuda.nvcc_version(machine.nvcc)
    if found == wanted:
        yield ok("CUDA toolkit", f"nvcc {found}")
    else:
        yield refusal(
            "CUDA toolkit",
            f"nvcc is {found}" if found else f"there is no {serving.CUDA_HOME}/bin/nvcc",
            f"{wanted}, what vLLM {settings.vllm_version}'s torch is built with",
            f"sudo apt-get install {' '.join(cuda.packages(wanted))} from NVIDIA's repository",
            "tasks/cuda.py",
        )
