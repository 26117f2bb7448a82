"""wsl.conf and .wslconfig, edited in place."""

import base64
import posixpath

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation

from tasks.shared.facts.files import FileBytes
from tasks.shared.operations.common import Commands, refuse, show_differences
from tasks.shared.wsl import windows, wslconf
from tasks.shared.wsl.wslconf import Values

# Through a link, and into a file that is there as a whole or not at all.
_WRITE = """
set -e; umask 022
target=$(readlink -f -- "$1")
base64 -d >"$target.new"
mv -f -- "$target.new" "$target"
"""


@operation()
def values_set(path: str, values: Values, newline: str | None) -> Commands:
    r"""Ensure values in a file that WSL reads; whatever else is in it stays, byte for byte.

    Refused, with nothing written, is a file that cannot be edited without guessing.

    + path: the file; it is made when it is not there
    + values: section to keys and values
    + newline: "\n" turns Windows' line ends into Unix'; None keeps what the file has, and gives a
      new one Windows'
    """
    content = host.get_fact(FileBytes, path=path)
    before = wslconf.decode(content or b"")
    try:
        after = wslconf.updated(before.text, values)
    except ValueError as error:
        yield from refuse(f"{path} {error}: correct it by hand, then run this again")
        return
    wanted = wslconf.rewritten(before, after, newline or ("\r\n" if not content else None))
    if wanted == (content or b""):
        host.noop(f"{path} says so")
        return
    folder, name = posixpath.split(path)
    show_differences(folder, {name: before.text} if content else {}, {name: after})
    packed = base64.b64encode(wanted).decode()
    yield StringCommand("sh -c", QuoteString(_WRITE), "sh", QuoteString(path), _stdin=[packed])


@operation(is_idempotent=False)
def stopped_until_restart() -> Commands:
    """End the run, with the command for Windows that has to come first."""
    yield from refuse(windows.NEXT_STEP)
