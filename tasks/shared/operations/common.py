"""What several operations do in the same way."""

import shlex
from collections import Counter
from collections.abc import Generator
from pathlib import PurePosixPath

from pyinfra import host, logger, state
from pyinfra.api import (
    FileDownloadCommand,
    FileUploadCommand,
    FunctionCommand,
    QuoteString,
    StringCommand,
)
from pyinfra.operations.util.files import generate_color_diff

from tasks.shared.facts.hostkit import HostState
from tasks.shared.run import prefetch
from tasks.shared.run.refusals import refusal
from tasks.shared.trees import Difference, Tree, differences, pack

LONGEST = 120
"""Lines of a folder's differences that are shown; of more than that, how many there are."""
MOST_FILES = 30
"""Files that are named then."""


def show_differences(
    folder: str, before: Tree, after: Tree, longest: int = 0, *, compared: bool = False
) -> None:
    """What --diff shows for a folder of text files; nothing without --diff.

    Of more than `longest` lines in all (0: no such limit) only their number is shown, and, where
    there are not too many of them, each file's. With -v all lines are. `compared`: the
    folder is new, and `before` another one that is like it.
    """
    if not state.config.DIFF:
        return
    found = list(differences(before, after))
    diffs = {path: _diff(old, new) for path, old, new in found}
    if longest and sum(map(len, diffs.values())) > longest and not state.print_noop_info:
        _show_numbers(folder, found, new=not before)
        return
    for path, old, new in found:
        host.log(
            f"Will {'modify' if old and not compared else 'create'} {folder}/{path}", logger.info
        )
        for line in diffs[path]:
            logger.info("  %s", line)
        hidden = sum(map(_is_hash, new))
        if hidden:
            logger.info("  and %d lines with hashes", hidden)
        logger.info("")


def _show_numbers(folder: str, found: list[Difference], *, new: bool) -> None:
    lines = sum(len(each[2]) for each in found)
    what = f"Will create {folder}: " if new else f"Will change {folder}: "
    host.log(f"{what}{len(found)} files, {lines} lines; -v shows them", logger.info)
    if len(found) <= MOST_FILES:
        for path, old, text in found:
            kept = sum((Counter(old) & Counter(text)).values())
            logger.info("  %s: +%d -%d", path, len(text) - kept, len(old) - kept)
    logger.info("")


def _diff(old: list[str], new: list[str]) -> list[str]:
    return list(generate_color_diff(_without_hashes(old), _without_hashes(new)))


def _is_hash(line: str) -> bool:
    """A line of a pinned requirement that says nothing to a reader; locks have thousands."""
    return line.lstrip().startswith("--hash=")


def _without_hashes(lines: list[str]) -> list[str]:
    return [line for line in lines if not _is_hash(line)]


def publish_folder(path: str, tree: Tree) -> StringCommand:
    """Upload a folder in one command: it is there as a whole or not at all.

    A folder of that name is replaced, by one deploy at a time.
    """
    staged, target = shlex.quote(f"{path}.new"), shlex.quote(path)
    parent = shlex.quote(str(PurePosixPath(path).parent))
    script = (
        f"set -e; umask 022; mkdir -p {parent}; exec 9<{parent}; flock 9; "
        f"rm -rf {staged}; mkdir {staged}; "
        f"base64 -d | tar -C {staged} --no-same-owner -xzf -; "
        # On the disk before it gets its name: a power cut must not leave it there with empty files.
        f"sync -f {staged}; rm -rf {target}; mv -T {staged} {target}"
    )
    return StringCommand("sh -c", QuoteString(script), _stdin=[pack(tree)])


def publish_text(path: str, text: str) -> StringCommand:
    """Write a text file that is replaced as a whole, and on the disk before it gets its name."""
    file, fresh = QuoteString(path), QuoteString(f"{path}.new")
    # pyinfra ends every line of standard input.
    return StringCommand(
        "umask 022 && cat >", fresh, "&& sync -f", fresh, "&& mv -fT", fresh, file,
        _stdin=[text.removesuffix("\n")],
    )  # fmt: skip


Commands = Generator[
    StringCommand | FileUploadCommand | FileDownloadCommand | FunctionCommand, None, None
]
"""What an operation yields."""


_said: set[tuple[str, str]] = set()


def is_news(text: str) -> bool:
    """Has nobody been told this of the host at hand? Operations are worked out more than once."""
    if prefetch.is_looking_ahead() or (host.name, text) in _said:
        return False
    _said.add((host.name, text))
    return True


def leave_open(reason: str) -> Generator[FunctionCommand, None, None]:
    """For what cannot be known: a plan says why, once a host, and goes on; a run is refused."""
    if state.is_executing:
        yield from refuse(reason)
        return
    if is_news(reason):
        told = f"{reason}; this plan says nothing of what only it knows"
        host.log_styled(told, fg="yellow", log_func=logger.warning)
    host.noop(reason)


def refuse(reason: str) -> Generator[FunctionCommand, None, None]:
    """Fail the operation with one line; in a plan the line is shown as a warning."""
    if not state.is_executing:
        host.log_styled(f"would be refused: {reason}", fg="yellow", log_func=logger.warning)
    yield refusal(reason)


NOT_STAGED = "no generation has these settings: deploy.py, told the same, stages one"


def staged_number(present: HostState, digest: str) -> int | None:
    """The generation with this digest; None when it is not staged.

    A plan cannot tell whether this run stages it, and takes the next number.
    """
    number = present.find(digest)
    return present.next_number() if number is None and not state.is_executing else number
