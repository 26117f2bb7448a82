"""What a start needs of the machine besides a good generation; each check raises Failure."""

import os
import resource
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hostkit.host import good, gpus, mounts, paths, sweep, units
from hostkit.host.process import Failure


def limits(needs: Mapping[str, Any]) -> None:
    """The limits that this process really has: a container caps what its unit asks for."""
    for name, what, kind in (
        ("open_files", "open files", resource.RLIMIT_NOFILE),
        ("locked_bytes", "bytes of locked memory", resource.RLIMIT_MEMLOCK),
    ):
        allowed, _ = resource.getrlimit(kind)
        needed = needs.get(name, 0)
        if allowed != resource.RLIM_INFINITY and allowed < needed:
            raise Failure(
                f"{allowed} {what} are allowed and {needed} needed: the unit asks for more, but "
                "something around it (a container without CAP_SYS_RESOURCE?) does not give it"
            )


def free_gpus(needs: Mapping[str, Any], visible: str | None) -> None:
    """Every GPU that the server will use has the memory free that it will take."""
    if not needs.get("gpus"):
        return
    used = gpus.chosen(gpus.read(), needs["gpus"], visible)
    problems = gpus.occupied(used, needs["gpu_memory_utilization"])
    if problems:
        raise Failure("; ".join(problems))


def no_orphans(own: int) -> None:
    """No process of an earlier server is left: it may hold GPU memory and shared memory."""
    for pid, command in servers():
        if pid != own:
            raise Failure(f"process {pid} of an earlier server is left: {command[:100]}")


def servers() -> Iterator[tuple[int, str]]:
    """The service user's processes that belong to a server, whichever: number, command line."""
    uid = sweep.service_uid()
    for pid in units.pids():
        if uid is not None and units.real_uid(pid) == uid:
            command = units.command_line(pid)
            if command.startswith("VLLM::") or f"{paths.RELEASES}/" in command:
                yield pid, command


def free_port(port: int) -> None:
    """Nobody listens on the port. Works without root, which alone may see who it is."""
    uids = units.listener_uids(port)
    if not uids:
        return
    owners = [f"process {pid} ({units.command_line(pid)[:100]})" for pid in units.listeners(port)]
    who = ", ".join(owners) or f"a process of user id {min(uids)}"
    raise Failure(f"port {port} is held by {who}")


def shared_memory(needs: Mapping[str, Any]) -> None:
    """/dev/shm has room for the RAM tier and for what the ranks exchange."""
    free = shutil.disk_usage(sweep.SHM).free
    needed = needs.get("shm_bytes", 0)
    if free < needed:
        raise Failure(
            f"{sweep.SHM} has {free >> 20} MiB free, {needed >> 20} MiB are needed: lower "
            f"kv_ram_gib, or mount it larger (mount -o remount,size=… {sweep.SHM})"
        )


def kv_folder(needs: Mapping[str, Any]) -> None:
    """The SSD tier's folder is there, writable, on a real disk, and on the disk it was on."""
    if not needs.get("kv_dir"):
        return
    folder = Path(needs["kv_dir"])
    mount = mounts.of(folder)
    before = good.last()
    point = before.get("kv_mount") if before.get("kv_dir") == str(folder) else None
    # A disk that has come since lies deeper than what was there before.
    if point and mount.point != point and not f"{mount.point}/".startswith(f"{point.rstrip('/')}/"):
        raise Failure(
            f"KV folder {folder} lies on {mount.point} and was on {point} when it last served: "
            f"is {point} mounted?"
        )
    if not folder.is_dir():
        raise Failure(f"KV folder {folder} is not there: is its disk mounted? Else deploy again")
    if mount.unfit:
        raise Failure(
            f"KV folder {folder} is on {mount.point}, {mount.unfit} ({mount.type}): set kv_ssd_dir "
            "to a folder on a local disk"
        )
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise Failure(f"KV folder {folder} is not writable for this user: deploy again")
