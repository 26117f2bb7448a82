"""wsl.conf and Windows' .wslconfig: read as WSL reads them, edited without losing a byte of them.

How WSL reads: src/shared/configfile/configfile.cpp of github.com/microsoft/WSL.
"""

import codecs
import configparser
import re
from collections.abc import Mapping
from dataclasses import dataclass

from configupdater import ConfigUpdater

Values = Mapping[str, Mapping[str, str]]
"""Section to its keys and their values."""

_SECTION = re.compile(r"\[([A-Za-z][A-Za-z0-9]*)\][ \t]*(?:#.*)?")
_PAIR = re.compile(r"([A-Za-z][A-Za-z0-9]*)[ \t]*=[ \t]*(.*)")
_SIZE = re.compile(r"(\d+)\s*(B|KB|MB|GB|TB)?", re.IGNORECASE)
_UNITS = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True)
class Text:
    """A file's text, its lines ended by a line feed, and what it takes to write it as it was."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    newline: str = "\n"


def decode(content: bytes) -> Text:
    """Read a file in whichever encoding Windows' programs left it; no byte is refused."""
    mark, encoding = next((pair for pair in _MARKS if content.startswith(pair[0])), (b"", "utf-8"))
    if not mark and content[1::2].count(0) > len(content) // 4:
        encoding = "utf-16-le"
    try:
        return _text(content[len(mark) :], encoding, mark)
    except UnicodeDecodeError:
        # latin-1 has a character for every byte, so that what is not understood is kept.
        return _text(content, "latin-1")


def rewritten(found: Text, text: str, newline: str | None = None) -> bytes:
    """Another text in the encoding, with the mark and, unless told otherwise, the line ends."""
    lines = text.replace("\n", newline or found.newline)
    return found.mark + lines.encode(found.encoding, errors=_errors(found.encoding))


def _errors(encoding: str) -> str:
    # A lone surrogate is a character in Windows' files.
    return "surrogatepass" if encoding.startswith("utf-16") else "strict"


def _text(content: bytes, encoding: str, mark: bytes = b"") -> Text:
    text = content.decode(encoding, errors=_errors(encoding))
    newline = "\r\n" if "\r\n" in text else "\n"
    return Text(text.replace("\r\n", "\n"), encoding, mark, newline)


def parse(text: str) -> dict[str, str]:
    """What WSL reads: "boot.systemd" in lower case to the value, the first of several.

    A line that WSL does not understand, such as `[ boot ]`, counts for nothing there either.
    """
    found: dict[str, str] = {}
    section = ""
    for line in text.split("\n"):
        stripped = line.strip(" \t")
        if match := _SECTION.fullmatch(stripped):
            section = match[1].lower()
        elif match := _PAIR.fullmatch(stripped):
            found.setdefault(f"{section}.{match[1].lower()}", _value(match[2]))
    return found


def _value(text: str) -> str:
    """A value without its comment and quotes."""
    value, quoted = "", False
    for character in text:
        if character == '"':
            quoted = not quoted
        elif character == "#" and not quoted:
            break
        else:
            value += character
    return value.strip(" \t")


def is_true(value: str) -> bool:
    """WSL's own notion of a boolean."""
    return value.lower() in ("true", "1")


def size_bytes(value: str) -> int | None:
    """WSL's memory sizes: 24GB, 512MB, or bytes; None for anything else."""
    match = _SIZE.fullmatch(value)
    return int(match[1]) * _UNITS[(match[2] or "").upper()] if match else None


def missing(text: str, wanted: Values) -> dict[str, dict[str, str]]:
    """The values among `wanted` that WSL would not read out of this text."""
    found = parse(text)
    left: dict[str, dict[str, str]] = {}
    for section, values in wanted.items():
        for key, value in values.items():
            there = found.get(f"{section}.{key}".lower())
            if there is None or there.lower() != value.lower():
                left.setdefault(section, {})[key] = value
    return left


def updated(text: str, wanted: Values) -> str:
    """The text with these values set; all else, comments included, stays as it is.

    Raises ValueError when the text cannot be edited safely: nothing is guessed then.
    """
    left = missing(text, wanted)
    if not left:
        return text
    updater = ConfigUpdater(
        comment_prefixes=("#", ";"), space_around_delimiters=False, delimiters=("=",)
    )
    try:
        updater.read_string(text if not text or text.endswith("\n") else text + "\n")
    except configparser.Error as error:
        reason = " ".join(error.message.split())
        raise ValueError(f"cannot be edited: {reason}") from None
    for section, values in left.items():
        name = _spelled(updater.sections(), section)
        if name is None:
            _separate(updater)
            updater.add_section(section)
            name = section
        for key, value in values.items():
            old = updater[name].get(key)
            comment = _comment(old.value) if old is not None and old.value else ""
            updater[name][key] = value + comment
    new = str(updater)
    if missing(new, wanted):
        raise ValueError(f"cannot be edited: WSL would not read {_shown(missing(new, wanted))}")
    return new


def _spelled(sections: list[str], wanted: str) -> str | None:
    return next((name for name in sections if name.lower() == wanted.lower()), None)


def _separate(updater: ConfigUpdater) -> None:
    """Leave a line empty before a section is added."""
    if updater.last_block is not None and not str(updater).endswith("\n\n"):
        updater.last_block.add_after.space(1)


def _comment(value: str) -> str:
    match = re.search(r"[ \t]*#.*$", value)
    return match[0] if match else ""


def _shown(values: Values) -> str:
    return ", ".join(f"{s}.{k}={v}" for s, pairs in values.items() for k, v in pairs.items())
