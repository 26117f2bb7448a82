"""The virtual disk that Windows keeps for WSL2: it grows with its files and does not shrink."""

import os
import platform
from pathlib import Path

# Where WSL puts a distribution's disk by itself: from the Store, and by `wsl --install`.
_PLACES = ("AppData/Local/Packages/*/LocalState/ext4.vhdx", "AppData/Local/wsl/*/ext4.vhdx")
USERS = Path("/mnt/c/Users")


def does_not_shrink(folder: Path) -> list[str]:
    """What to know after files were removed under `folder`; nothing outside of WSL2.

    Two sizes: what the files of its file system take, and what its disk takes in Windows.
    """
    if "microsoft" not in platform.release().lower():
        return []
    info = os.statvfs(folder)
    used = (info.f_blocks - info.f_bfree) * info.f_frsize
    disks = [(file, file.stat().st_size) for file in _virtual_disks()]
    sizes = ", ".join(f"{size / 1e9:.1f} GB in {file}" for file, size in disks)
    return [
        f"Windows gets nothing of it back: all files take {used / 1e9:.1f} GB, the virtual disk "
        f"{sizes or '(not found: it is an ext4.vhdx) what it once grew to'}. To shrink it, in "
        "Windows: `wsl --shutdown`, then `Optimize-VHD -Path …\\ext4.vhdx -Mode Full`, or in "
        "diskpart `select vdisk file=…\\ext4.vhdx`, `attach vdisk readonly`, `compact vdisk`, "
        "`detach vdisk`"
    ]


def _virtual_disks() -> list[Path]:
    try:
        return sorted(file for each in _PLACES for file in USERS.glob(f"*/{each}"))
    except OSError:
        return []
