"""Is there room to write down what a switch leaves behind?"""

import os
from pathlib import Path

from hostkit.host.process import Failure

_BYTES = 1024**2
_FILES = 16


def require(*folders: Path) -> None:
    """Failure names the first of these folders in which nothing more can be written."""
    for folder in filter(Path.is_dir, folders):
        if not os.access(folder, os.W_OK):
            raise Failure(f"{folder} cannot be written to: is its file system read-only?")
        found = os.statvfs(folder)
        if found.f_bavail * found.f_frsize < _BYTES:
            raise Failure(f"no room is left on the disk of {folder}: make some")
        # Some file systems do not count.
        if found.f_files and found.f_favail < _FILES:
            raise Failure(f"no room for more files is left on the disk of {folder}: make some")
