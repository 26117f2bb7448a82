"""Secrets that lie in 0600 files on the control machine: API key, token, webhook, SSH key.

Settings hold only the paths. What is read here goes to a host through `secret_file`, and nowhere
else.
"""

import hashlib
import os
import secrets
from functools import cache
from pathlib import Path

from tasks.shared import texts

KEY, TOKEN, NOTIFY = "/etc/vllm/secrets.env", "/etc/vllm/hf_token", "/etc/vllm/notify"
ON_HOST = (KEY, TOKEN, NOTIFY)
"""Where each of them lies on a host: root's, 0600."""

_UNSAFE = set("\"\\$`' ")


def check_key_file(file: str) -> None:
    """Refuse a file that cannot serve as the API key; a missing one is made later."""
    if texts.local_path(file).exists() and len(_read_private(file)) < 16:
        raise ValueError("the file must hold one key of at least 16 characters")


def check_token_file(file: str) -> None:
    """Refuse a file that cannot serve as a token, a missing one too."""
    if not texts.local_path(file).exists():
        raise ValueError("there is no such file on this machine")
    _read_private(file)


def token(file: str) -> str:
    """The token in a file; ValueError as `check_token_file`."""
    return _read_private(file)


def notify_address(file: str) -> str:
    """Who is told of failures, as a file says: a webhook's URL or mailto:… Raises ValueError."""
    found = _read_private(file)
    if not found.startswith(("https://", "http://", "mailto:")):
        raise ValueError("the file must hold one https://… or mailto:… address")
    return found


@cache
def api_key(file: str, *, rotate: bool = False) -> str:
    """The key that this run works with: the file's, or a new one that is not saved yet.

    The same all through one run, so that a plan and what it predicts agree, and all hosts get one.
    """
    if texts.local_path(file).exists() and not rotate:
        return _read_private(file)
    return secrets.token_urlsafe(32)


def save_api_key(file: str, key: str) -> None:
    """Write the key to its file, 0600; nothing happens when it is there already.

    The key before lies in `<file>.previous` then: a server that was not restarted yet wants it.
    """
    path = texts.local_path(file)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists():
        before = _read_private(file)
        if before == key:
            return
        _write_private(path.with_name(f"{path.name}.previous"), before)
    _write_private(path, key)


def _write_private(path: Path, text: str) -> None:
    staged = path.with_name(f"{path.name}.new")
    staged.unlink(missing_ok=True)
    with open(os.open(staged, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as stream:
        stream.write(text + "\n")
    staged.replace(path)


def digest(key: str) -> str:
    """12 hex digits that tell one key from another and say nothing about it."""
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def env_file(key: str) -> str:
    """The environment file that hands the key to the server."""
    return f'VLLM_API_KEY="{key}"\n'


def check_private(file: str) -> Path:
    """The path of a file that only its owner can read; ValueError for any other."""
    path = texts.local_path(file)
    if not path.is_file():
        raise ValueError("must be a file")
    if path.stat().st_mode & 0o077:
        raise ValueError(f"others can read this file: chmod 600 {file}")
    return path


def _read_private(file: str) -> str:
    path = check_private(file)
    try:
        text = path.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable() or set(text) & _UNSAFE:
        raise ValueError("the file must hold one line of letters, digits and signs without quotes")
    return text
