"""Checks of texts that end up in paths, units and command lines.

Each returns the text or raises ValueError.
"""

import ipaddress
import re
from pathlib import Path, PurePosixPath

_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")


def one_line(text: str) -> str:
    """A text that cannot break out of its line in a unit, an environment file or a log."""
    if _CONTROL_CHARACTER.search(text):
        raise ValueError("must be one line without control characters")
    return text


def address(text: str) -> str:
    """A URL, or a folder, that may be shown: it holds no password or token."""
    if re.search(r"https?://[^/\s]*@", text):
        raise ValueError(
            "must hold no user name and no password, which diffs and process lists would show: "
            "put them into /root/.netrc on the host"
        )
    return one_line(text)


def without_passwords(text: str) -> str:
    """A text to be shown, with user name and password taken out of every URL."""
    return re.sub(r"(\w+://)[^/\s'\"]*@", r"\1***@", text)


def number_as_text(value: object) -> object:
    """What a command line makes a number of, where a name may be one: a process id."""
    return str(value) if type(value) is int else value


def local_path(text: str) -> Path:
    """A path on this machine; ~ is the home of its user, ~name that of another."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"nobody's home on this machine is {text.partition('/')[0]}") from None


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


def new_archive(text: str) -> str:
    """The path of a .tar.gz that is not there yet, in a folder that is."""
    return _new_file(text, ".tar.gz")


def new_bill(text: str) -> str:
    """The same of a CycloneDX bill of materials."""
    return _new_file(text, ".cdx.json")


def _new_file(text: str, ending: str) -> str:
    path = local_path(one_line(text))
    if not text.endswith(ending):
        raise ValueError(f"must end with {ending}")
    if path.exists():
        raise ValueError("is there already: name another file")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}")
    return text


def host_and_port(text: str) -> str:
    """Where something listens that is not ours."""
    match = re.fullmatch(r"([\w.-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})", text)
    if not match or not 0 < int(match[2]) < 65536:
        raise ValueError("must be a host and a port, for example 10.0.0.5:9093")
    return text


def in_url(address: str) -> str:
    """A host as it stands in a URL."""
    return f"[{address}]" if ":" in address else address


def ip_address(text: str) -> str:
    """An IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise ValueError("must be an IP address; 0.0.0.0 is all of them") from None
    return text
