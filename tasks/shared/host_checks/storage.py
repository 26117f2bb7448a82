"""Memory, disks and file systems: is there room for what the settings ask?"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.shared.facts.machine import Machine, Place
from tasks.shared.host_checks.findings import Finding, ok, refusal, threshold, warning

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

GIB = 1024**3
_WINDOWS = {"9p", "v9fs", "drvfs", "virtiofs"}
_REMOTE = {"cifs", "smb3", "nfs", "nfs4"}
_VOLATILE = {"tmpfs", "ramfs", "overlay"}


def file_system(path: str, mounts: str) -> str:
    """The kind of file system that a path without links lies on, out of /proc/mounts."""
    return _mounted(path, mounts)[0]


def is_read_only(path: str, mounts: str) -> bool:
    """Is the file system that it lies on one that nobody can write to now?"""
    return "ro" in _mounted(path, mounts)[1]


def _mounted(path: str, mounts: str) -> tuple[str, list[str]]:
    """The kind and the options of what is mounted where a path lies."""
    best, kind, options = "", "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _unescaped(fields[1])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # Of two mounts on one point the later one is what is seen.
        if inside and len(point) >= len(best):
            best, kind, options = point, fields[2], "".join(fields[3:4])
    return kind, options.split(",")


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def judge(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    """RAM, /dev/shm, disks, and the file systems under the KV cache and the model."""
    yield from _ram(machine, settings)
    yield from _shm(machine, settings)
    yield from _disk(machine, settings)
    yield from _read_only(machine, settings)
    yield from _windows_drive(machine, settings)
    yield from _kv_file_system(machine, settings)
    yield from _model_file_system(machine)


def _ram(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    total = machine.memory_bytes / GIB
    if settings.accelerator != "cuda" or not total:
        yield ok("RAM", f"{total:.1f} GiB" if total else "unknown")
        return
    tower = settings.vision_tower_gib * settings.gpus if settings.vision_tower == "cpu" else 0
    pinned = settings.kv_ram_gib + tower
    needed = pinned + threshold("ram_per_gpu_gib") * settings.gpus
    compiling = needed + threshold("ram_per_compiler_gib") * settings.max_jobs
    more = "give WSL more: wsl_memory_gib" if settings.wsl2 else "add RAM"
    if settings.wsl2 and pinned > threshold("pinned_share") * total:
        yield refusal(
            "RAM",
            f"{total:.1f} GiB, of which WSL2 pins half at most",
            f"{pinned:.1f} GiB pinned for kv_ram_gib and the vision tower",
            f"{more}, or lower kv_ram_gib",
        )
    elif total < needed:
        yield refusal(
            "RAM",
            f"{total:.1f} GiB",
            f"{needed:.1f} GiB for {settings.gpus} ranks, kv_ram_gib and the vision tower",
            f"{more}, or lower kv_ram_gib",
        )
    elif total < compiling:
        yield warning(
            "RAM",
            f"{total:.1f} GiB",
            f"{compiling:.1f} GiB while the server compiles with max_jobs = {settings.max_jobs}",
            f"{more}, or wsl_swap_gib" if settings.wsl2 else f"{more} or swap",
        )
    else:
        yield ok("RAM", f"{total:.1f} GiB")


def _shm(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    place = machine.places.get("shm", Place(""))
    if place.size_kib is None or not (settings.kv_ram_gib or settings.gpus > 1):
        return
    size = place.size_kib * 1024 / GIB
    needed = settings.kv_ram_gib + threshold("shm_reserve_gib")
    if size < needed:
        yield refusal(
            "/dev/shm",
            f"{size:.1f} GiB",
            f"{needed:.2f} GiB for kv_ram_gib and NCCL",
            f"lower kv_ram_gib, or: mount -o remount,size={int(needed) + 1}G /dev/shm (and in "
            "/etc/fstab)",
        )
    else:
        yield ok("/dev/shm", f"{size:.1f} GiB")


def _needed_gib(settings: "Settings", machine: Machine) -> int:
    """Room on the disk for what the next deploy writes at once."""
    if settings.accelerator == "cpu":
        return int(threshold("cpu_release_gib"))
    toolkit = 0 if machine.nvcc else int(threshold("toolkit_gib"))
    return int(threshold("release_gib")) + toolkit


def _disk(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    place = machine.places.get("releases", Place(""))
    if place.free_kib is None:
        return
    free, needed = place.free_kib * 1024 / GIB, _needed_gib(settings, machine)
    if machine.serves or free >= needed:
        # What is built already is not built again; a build that needs room refuses for itself.
        yield ok("disk", f"{free:.0f} GiB are free under {place.path}")
    else:
        yield refusal(
            "disk",
            f"{free:.1f} GiB are free under {place.path}",
            f"{needed} GiB for a release{'' if machine.nvcc else ' and the toolkit'}",
            "make room",
        )
    kv = machine.places.get("kv", Place(""))
    if settings.kv_ssd_gb and kv.free_kib is not None:
        free_gb = kv.free_kib * 1024 / 1e9
        if free_gb < settings.kv_ssd_gb and not machine.serves:
            yield warning(
                "disk of the SSD tier",
                f"{free_gb:.0f} GB are free under {kv.path}",
                f"{settings.kv_ssd_gb} GB, less what the tier holds already",
                "lower kv_ssd_gb, or set kv_ssd_dir to a bigger disk",
            )
        else:
            yield ok("disk of the SSD tier", f"{free_gb:.0f} GB are free under {kv.path}")


def _read_only(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    names = ("releases", *(["kv"] if settings.kv_ssd_gb else []))
    paths = [machine.places[name].path for name in names if name in machine.places]
    fixed = [path for path in paths if is_read_only(path, machine.mounts)]
    if fixed:
        # No refusal: a deploy that has nothing to change does without.
        yield warning(
            "disk",
            f"read-only under {' and '.join(fixed)}",
            "a file system that can be written to",
            "see dmesg: the kernel makes it so after an error; check it, and mount it again",
        )


def _windows_drive(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    place = machine.places.get("windows")
    if place is None or place.free_kib is None:
        return
    free = place.free_kib * 1024 / GIB
    lowest = threshold("windows_drive_gib")
    wanted = lowest + (0 if machine.serves else _needed_gib(settings, machine))
    found = f"{free:.0f} GiB are free on {place.path}"
    grows = "WSL's virtual disk grows there, whatever df says inside (unless it was moved)"
    if free < wanted:
        yield refusal("drive C:", found, f"{wanted} GiB", f"make room in Windows: {grows}")
    elif free < wanted + settings.kv_ssd_gb * 1e9 / GIB and not machine.serves:
        yield warning(
            "drive C:",
            found,
            f"{wanted + settings.kv_ssd_gb * 1e9 / GIB:.0f} GiB with a full SSD tier",
            f"make room in Windows, or lower kv_ssd_gb: {grows}",
        )
    else:
        yield ok("drive C:", found)


def _kv_file_system(machine: Machine, settings: "Settings") -> Iterator[Finding]:
    place = machine.places.get("kv", Place(""))
    kind = file_system(place.path, machine.mounts)
    if not settings.kv_ssd_gb or not kind:
        return
    if kind in _WINDOWS | _REMOTE | _VOLATILE or kind.startswith("fuse"):
        why = "is lost at the next boot" if kind in _VOLATILE else "is far slower than computing"
        yield refusal(
            "kv_ssd_dir",
            f"{place.path} lies on {kind}",
            "a local disk with ext4, xfs or btrfs",
            f"set kv_ssd_dir to a folder inside {'WSL' if settings.wsl2 else 'the host'}: "
            f"what lies on {kind} {why}",
        )
    else:
        yield ok("kv_ssd_dir", f"{place.path} on {kind}")


def _model_file_system(machine: Machine) -> Iterator[Finding]:
    place = machine.places.get("model", Place(""))
    kind = file_system(place.path, machine.mounts)
    if kind in _WINDOWS | _REMOTE or kind.startswith("fuse"):
        yield warning(
            "model",
            f"{place.path} lies on {kind}",
            "a disk of the host's own",
            "copy it into WSL: from there it loads in seconds, from Windows' drive in minutes",
        )
    elif kind:
        yield ok("model", f"{place.path} on {kind}")
