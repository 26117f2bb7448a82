"""Which file system a path lies on."""

import re
from dataclasses import dataclass
from pathlib import Path

MOUNTINFO = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")

UNFIT = {
    "9p": "a Windows drive",
    "drvfs": "a Windows drive",
    "virtiofs": "a Windows drive or a folder of the host",
    "tmpfs": "in memory",
    "ramfs": "in memory",
    "overlay": "an overlay",
    "nfs": "on the network",
    "nfs4": "on the network",
    "cifs": "on the network",
    "smb3": "on the network",
}
"""File systems on which the SSD tier is slow, loses its direct I/O, or is no SSD at all."""


@dataclass(frozen=True)
class Mount:
    """A mounted file system: where, and of which type."""

    point: str
    type: str

    @property
    def unfit(self) -> str | None:
        """Why nothing that has to be fast may lie on it; None for a real disk."""
        if self.type.startswith("fuse"):
            return "a file system in user space"
        return UNFIT.get(self.type)


def of(path: Path) -> Mount:
    """The mount that a path lies on, symbolic links followed; the path need not exist."""
    return find(str(path.resolve()), MOUNTINFO.read_text("utf-8", "replace"))


def is_point(path: Path) -> bool:
    """Is something mounted right here? os.path.ismount does not see a folder of the same disk."""
    lines = MOUNTINFO.read_text("utf-8", "replace").splitlines()
    points = [_OCTAL.sub(_character, line.split(" ")[4]) for line in lines if line]
    return str(path.resolve()) in points


def find(path: str, table: str) -> Mount:
    """The mount of a resolved path in the text of /proc/self/mountinfo.

    Inside a unit each of ReadWritePaths= is a mount of its own, of a folder of the file system that
    lies below: it counts as that one, so that the answer is the same inside and outside.
    """
    best = Mount("/", "unknown")
    longest = ""
    for line in table.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        root, point = (_OCTAL.sub(_character, field) for field in fields[3:5])
        inside = point == "/" or path == point or path.startswith(f"{point}/")
        # Of two on one point the later hides the earlier.
        if inside and len(point) >= len(longest):
            longest, best = point, Mount(_below(point, root), right.split(" ")[0])
    return best


def _below(point: str, root: str) -> str:
    """Where a file system is mounted of which the folder `root` is mounted on `point`."""
    points, roots = point.split("/")[1:], root.split("/")[1:]
    while points and roots and points[-1] == roots[-1] != "":
        points.pop()
        roots.pop()
    return "/" + "/".join(points)


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))
