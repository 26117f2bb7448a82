"""Removes what a killed server left in shared memory.

A file goes only when all of this holds: it is the service user's, its name is one that vLLM gives,
and no process has it mapped. RemoveIPC= in the unit does most of it; this is for what remains.
"""

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import Any

from hostkit.host import serviceuser, units
from hostkit.host.process import Failure

SHM = Path("/dev/shm")
# Python's shared memory, its semaphores, and the RAM tier of the KV cache.
_OURS = re.compile(r"psm_\w+|sem\.mp-\w+|vllm_offload_[\w-]+\.mmap")


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("sweep", help="remove a dead server's shared memory")
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
    parser.set_defaults(run=_command)


def _command(args: Any) -> int:
    found = leftovers() if args.dry_run else sweep()
    print("\n".join(found) or "nothing of a dead server lies in /dev/shm")
    return 0


def sweep() -> list[str]:
    """Remove what nobody uses any more; a line for each file. Needs root, to see all mappings."""
    removed = []
    for line in leftovers():
        with contextlib.suppress(FileNotFoundError):
            (SHM / line.split(" ", 1)[0]).unlink()
            removed.append(line)
    return removed


def leftovers() -> list[str]:
    """What `sweep` removes: "name (bytes)" each."""
    uid = service_uid()
    if uid is None or not SHM.is_dir():
        return []
    candidates = {}
    for entry in SHM.iterdir():
        info = entry.lstat()
        if _OURS.fullmatch(entry.name) and info.st_uid == uid and stat.S_ISREG(info.st_mode):
            candidates[info.st_dev, info.st_ino] = (entry.name, info.st_size)
    # Looked for after the files: what is made in between is in neither.
    mapped = _mapped() if candidates else set()
    return [
        f"{name} ({size} bytes)" for key, (name, size) in candidates.items() if key not in mapped
    ]


def service_uid() -> int | None:
    """The service user's id; None before there is one."""
    user = serviceuser.account()
    return user.pw_uid if user else None


def _mapped() -> set[tuple[int, int]]:
    """Device and inode of every file that any process has mapped."""
    if os.geteuid() != 0:
        raise Failure("only root sees what other processes have mapped: use sudo")
    found = set()
    for pid in units.pids():
        try:
            text = (units.PROC / str(pid) / "maps").read_text("utf-8", "replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        for line in text.splitlines():
            fields = line.split(None, 5)
            if len(fields) > 5 and fields[4] != "0":
                major, minor = (int(part, 16) for part in fields[3].split(":"))
                found.add((os.makedev(major, minor), int(fields[4])))
    return found
