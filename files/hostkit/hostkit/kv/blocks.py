"""The files of the SSD tier: walks them, and removes those that a judge names.

vLLM lays them out as <fingerprint>/<model>_r0/<hhh>/<hh>_g0/<hash>.bin, one or two files a folder,
so a million files have 650,000 folders. What is kept of a file is the minute of its last use.

The folders belong to the service's user and this runs as root, so everything is named relative to
an open folder and no link is followed: a folder that is exchanged for a link leads nowhere.
"""

import os
import re
import stat
import threading
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from hostkit.host.process import Failure

FINGERPRINT = re.compile(r"[0-9a-f]{12}")
MINUTE = 60
# More than four gained nothing with a cold cache, and 32 took twice as long.
_THREADS = 4
_SPREAD_BELOW = 1
_DEEPEST = 8
# An empty folder as young as this may be the server's, which is about to write into it.
_YOUNG_S = 60

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OutOfTime(Failure):
    """The walk took longer than it was given."""


class Judge:
    """Which files go: temporary ones last written before a time, and blocks by their last use.

    Blocks go when last used before `minute`, and of those used in it as many as have `bytes_of_it`:
    files that were copied here have one time all together. Temporary files that are younger are
    being written.
    """

    def __init__(self, temporary_before: float, minute: int = 0, bytes_of_it: int = 0) -> None:
        self._temporary_before = temporary_before
        self.minute = minute
        self._left = bytes_of_it
        self._lock = threading.Lock()

    def takes_temporary(self, written: float) -> bool:
        return written < self._temporary_before

    def takes_block(self, minute: int, size: int) -> bool:
        if minute != self.minute:
            return minute < self.minute
        with self._lock:
            taken = self._left > 0
            if taken:
                self._left -= size
            return taken


@dataclass
class Tally:
    """What a walk found and did. `minutes`: the bytes of the blocks that stay, by last use."""

    files: int = 0
    bytes: int = 0
    removed_blocks: int = 0
    removed_temporary: int = 0
    removed_bytes: int = 0
    removed_folders: int = 0
    minutes: Counter[int] = field(default_factory=Counter)

    @property
    def removed(self) -> int:
        """Files and folders."""
        return self.removed_blocks + self.removed_temporary + self.removed_folders

    def add(self, other: "Tally") -> None:
        self.files += other.files
        self.bytes += other.bytes
        self.minutes.update(other.minutes)
        self.add_removed(other)

    def add_removed(self, earlier: "Tally") -> None:
        """What an earlier walk of the same folder removed counts as well."""
        self.removed_blocks += earlier.removed_blocks
        self.removed_temporary += earlier.removed_temporary
        self.removed_bytes += earlier.removed_bytes
        self.removed_folders += earlier.removed_folders

    def without(self, later: "Tally", minute: int) -> "Tally":
        """What stays after a later walk removed blocks up to `minute`; what both have removed."""
        before = sum(size for used, size in self.minutes.items() if used < minute)
        left = Counter({used: size for used, size in self.minutes.items() if used > minute})
        of_it = self.minutes[minute] - (later.removed_bytes - before)
        if of_it > 0:
            left[minute] = min(of_it, self.minutes[minute])
        files, size = self.files - later.removed_blocks, self.bytes - later.removed_bytes
        rest = Tally(files=files, bytes=size, minutes=left)
        rest.add_removed(self)
        rest.add_removed(later)
        return rest


class Oldest:
    """For each folder the last use of the oldest block in it, in 4 MiB however many there are.

    Folders share a slot now and then: one may seem to hold an older block than it does, never a
    younger one.
    """

    _SLOTS = 1 << 20
    _NONE = 0xFFFFFFFF

    def __init__(self) -> None:
        self._minutes = array("I", [self._NONE]) * self._SLOTS
        self._lock = threading.Lock()

    def note(self, folder: str, minutes: Iterable[int]) -> None:
        """Blocks that were last used then lie in the folder."""
        slot = hash(folder) % self._SLOTS
        with self._lock:
            self._minutes[slot] = min((self._minutes[slot], *minutes))

    def of(self, folder: str) -> int:
        """No block in the folder was last used before this minute."""
        return self._minutes[hash(folder) % self._SLOTS]


def fingerprints(root: int) -> list[str]:
    """The names of the folders that a generation's tier has, or had, in the open root."""
    with os.scandir(root) as entries:
        return sorted(
            entry.name
            for entry in entries
            if FINGERPRINT.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        )


class Walk:
    """Goes through fingerprints of one root. Without `remove` it counts what would go as gone.

    A first walk fills `oldest`; one that is `again` there passes by what has no block to remove,
    and tells only of what it removed. Raises OutOfTime once the monotonic clock has passed `until`.
    """

    def __init__(
        self,
        root: int,
        judge: Judge,
        oldest: Oldest,
        *,
        remove: bool,
        until: float,
        again: bool = False,
    ) -> None:
        self._root = root
        self._device = os.fstat(root).st_dev
        self._judge = judge
        self._oldest = oldest
        self._remove = remove
        self._until = until
        self._again = again
        self._now = time.time()

    def through(self, fingerprint: str) -> Tally:
        tally = Tally()
        self._visit(self._root, "", fingerprint, 0, tally)
        return tally

    def _visit(self, parent: int, above: str, name: str, depth: int, tally: Tally) -> bool:
        """Add what a folder holds to a tally; is the folder still there?"""
        if time.monotonic() > self._until:
            raise OutOfTime("it takes too long")
        path = f"{above}/{name}"
        if depth > _DEEPEST or (self._again and self._oldest.of(path) > self._judge.minute):
            return True
        try:
            folder = os.open(name, _FOLDER, dir_fd=parent)
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            return True
        removed = tally.removed
        try:
            info = os.fstat(folder)
            if info.st_dev != self._device:
                return True
            stays, below = self._look(folder, path, tally)
            stays += sum(self._below(folder, path, below, depth, tally))
        finally:
            os.close(folder)
        emptied = tally.removed != removed
        is_old = info.st_mtime < self._now - _YOUNG_S
        if stays or not depth or not self._remove or not (emptied or is_old):
            return True
        return not self._is_removed(parent, name, tally)

    def _look(self, folder: int, path: str, tally: Tally) -> tuple[int, list[str]]:
        """How many entries of a folder stay, and the names of the folders in it."""
        stays, below, minutes = 0, list[str](), list[int]()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
                else:
                    stays += self._stays(folder, entry, tally, minutes)
        if not self._again:
            # What lies deeper is asked of each folder by itself.
            self._oldest.note(path, [0] if below else minutes)
        return stays, below

    def _below(
        self, folder: int, path: str, names: list[str], depth: int, tally: Tally
    ) -> Iterator[bool]:
        """Which of the folders in a folder are still there."""
        if depth != _SPREAD_BELOW:
            for name in names:
                yield self._visit(folder, path, name, depth + 1, tally)
            return

        def visit(name: str) -> tuple[bool, Tally]:
            own = Tally()
            return self._visit(folder, path, name, depth + 1, own), own

        # Its end is waited for, however it comes: the threads name files relative to this folder.
        with ThreadPoolExecutor(_THREADS) as pool:
            for there, own in pool.map(visit, names):
                tally.add(own)
                yield there

    def _stays(
        self, folder: int, entry: "os.DirEntry[str]", tally: Tally, minutes: list[int]
    ) -> bool:
        """Does a file stay? A block that does adds the minute of its last use."""
        is_temporary = entry.name.endswith(".tmp")
        if not is_temporary and not entry.name.endswith(".bin"):
            return True
        try:
            info = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(info.st_mode):
                return True
            minute = max(0, int(info.st_mtime) // MINUTE)
            if is_temporary:
                goes = self._judge.takes_temporary(info.st_mtime)
            else:
                goes = self._judge.takes_block(minute, info.st_size)
            if goes and self._remove:
                os.unlink(entry.name, dir_fd=folder)
        except FileNotFoundError:
            return False
        if goes:
            tally.removed_temporary += is_temporary
            tally.removed_blocks += not is_temporary
            tally.removed_bytes += info.st_size
            return False
        tally.files += 1
        tally.bytes += info.st_size
        if not is_temporary:
            minutes.append(minute)
            tally.minutes[minute] += info.st_size
        return True

    def _is_removed(self, parent: int, name: str, tally: Tally) -> bool:
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError:
            # The server has written into it, or removed it, since.
            return False
        tally.removed_folders += 1
        return True
