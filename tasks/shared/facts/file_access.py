"""Who may read a file on a host that holds a secret. Pure functions."""

from dataclasses import dataclass

WANTED = "root's, and nobody else's to read"

_GROUP_MAY_READ = 0o040


@dataclass(frozen=True)
class FileAccess:
    """A file's owner, by name, and its permissions."""

    owner: str
    mode: int

    @classmethod
    def read(cls, text: str) -> "FileAccess":
        """From `stat -c '%U %a'`, for example "root 600"."""
        owner, _, mode = text.strip().rpartition(" ")
        return cls(owner, int(mode, 8))

    def __str__(self) -> str:
        return f"{self.owner}'s, mode {self.mode:o}"

    def is_roots_alone(self, *, or_a_groups: bool = False) -> bool:
        """Can nobody but root read or replace it?

        A file that the operator keeps for several services may be a group's to read, as Debian has
        it with the group ssl-cert.
        """
        allowed = 0o700 | (_GROUP_MAY_READ if or_a_groups else 0)
        return self.owner == "root" and not self.mode & ~allowed


def remedy(path: str) -> str:
    """What makes a file root's alone."""
    return (
        f"sudo chown root: {path} && sudo chmod 600 {path}; if others could read it, replace what "
        "is in it"
    )
