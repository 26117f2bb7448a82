"""Checks of texts that end up in paths, units and command lines.

Each returns the text or raises ValueError.
"""

import re
from pathlib import PurePosixPath

_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")


def one_line(text: str) -> str:
    """A text that cannot break out of its line in a unit, an environment file or a log."""
    if _CONTROL_CHARACTER.search(text):
        raise ValueError("must be one line without control characters")
    return text


def absolute_path(text: str) -> str:
    """A plain absolute path; a trailing slash is dropped."""
    if not text.startswith("/") or ".." in PurePosixPath(text).parts:
        raise ValueError("must be an absolute path without '..'")
    if not re.fullmatch(r"[\w./+@-]+", text):
        raise ValueError("may hold only letters, digits and . _ / + @ -")
    return text.rstrip("/") or "/"


def file_name(text: str) -> str:
    """The name of one file or folder."""
    if "/" in text or text in ("", ".", ".."):
        raise ValueError("must be a name without a slash")
    return one_line(text)
