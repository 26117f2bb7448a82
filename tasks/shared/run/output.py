"""What a host prints, whatever its bytes are.

A file name or a program's message need not be UTF-8. pyinfra's reader ends at the first such byte
with a traceback, loses what follows, and may wait forever for a program that has more to say.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from paramiko.file import BufferedFile
from pyinfra.connectors import util

_read_buffer = util.read_buffer


def take_any_bytes() -> None:
    """Show bytes that are no UTF-8 as replacement characters, in everything that is read."""
    util.read_buffer = _read


def _read(name: str, io: Iterable[str | bytes], *args: Any, **kwargs: Any) -> None:
    _read_buffer(name, _texts(io), *args, **kwargs)


def _texts(io: Iterable[str | bytes]) -> Iterator[str]:
    if isinstance(io, BufferedFile):
        # Over SSH lines are decoded by paramiko, unless the file is a binary one.
        io._flags |= io.FLAG_BINARY  # type: ignore[attr-defined]
    for line in io:
        yield line if isinstance(line, str) else line.decode("utf-8", errors="replace")
