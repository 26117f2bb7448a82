"""A support archive on this machine: everything about one host that helps, and nothing private."""

import base64
import contextlib
import getpass
import io
import json
import os
import platform
import socket
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import IO

from pyinfra import host, state
from pyinfra.api.exceptions import DeployError

from tasks.shared import credentials, inspection
from tasks.shared.facts.doctor import ArchiveFact, Report
from tasks.shared.settings import Settings
from tasks.shared.support.redaction import Redactor
from tasks.shared.texts import local_path

README = """What is in this archive:

doctor.txt        what tasks/doctor.py said
doctor.json       what it said that of
settings.json     the settings of the host
versions.txt      this repository and what runs it
host/             texts of the host: units, journal, generations, metrics, failures

Secrets are cut out. Hosts, people and addresses have numbers, the same in all files.
{kept}"""


def write(own: Settings, report: Report, table: Sequence[str]) -> None:
    """Write `bundle` for the host at hand, mode 0600. Raises DeployError."""
    if len(state.activated_hosts) > 1:
        raise DeployError("bundle is of one host: name it with --limit")
    path = local_path(str(own.bundle))
    redactor = Redactor(
        secrets(own),
        hosts=[
            *report.names.hosts,
            *own.front_door_names,
            host.name,
            socket.gethostname(),
        ],
        users=[
            *report.names.users,
            *inspection.machine().windows_users,
            getpass.getuser(),
        ],
        versions=report.versions.values(),
    )
    lines: list[str] = host.get_fact(ArchiveFact)
    packed = base64.b64decode("".join(lines))
    texts = [
        ("README.txt", README.format(kept=_kept(redactor))),
        ("doctor.txt", "\n".join([*table, ""])),
        ("doctor.json", report.model_dump_json(indent=2)),
        ("settings.json", json.dumps(own.model_dump(mode="json"), indent=2)),
        ("versions.txt", _versions()),
    ]
    try:
        with _new(path) as file:
            pack(file, [*texts, *unpack(packed)], redactor)
    except OSError as error:
        raise DeployError(f"cannot write {path}: {error.strerror}") from error
    host.log(f"Written to {path}: read it before you give it to somebody")


def _kept(redactor: Redactor) -> str:
    if not redactor.kept:
        return ""
    names = ", ".join(sorted(redactor.kept))
    return f"Not hidden, because any log is full of these words: {names}\n"


@contextlib.contextmanager
def _new(path: Path) -> Iterator[IO[bytes]]:
    """A new file that only its owner may read; gone again when it cannot be written whole."""
    try:
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            yield file
    except FileExistsError:
        raise
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def unpack(packed: bytes) -> Iterator[tuple[str, str]]:
    """Name and text of each file of a host's archive; nothing for an empty one."""
    if not packed:
        return
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r|gz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                yield f"host/{member.name}", file.read().decode("utf-8", "replace")


def pack(file: IO[bytes], texts: Sequence[tuple[str, str]], redactor: Redactor) -> None:
    """Write the texts as a tar.gz, one after another, each redacted, its name too."""
    with tarfile.open(fileobj=file, mode="w|gz") as archive:
        for name, text in texts:
            content = redactor(text).encode("utf-8", "replace")
            member = tarfile.TarInfo(redactor(name))
            member.size, member.mode = len(content), 0o600
            archive.addfile(member, io.BytesIO(content))


def secrets(own: Settings) -> list[str]:
    """What must be in no text: the key, the one before, the token, the webhook.

    Raises DeployError for one that cannot be read: what is not known cannot be cut out.
    """
    keys = (own.api_key_file, f"{own.api_key_file}.previous")
    there = [file for file in keys if local_path(file).exists()]
    found = []
    for file in (*there, own.hf_token_file, own.notify_file):
        try:
            found += [credentials.token(file)] if file else []
        except ValueError as error:
            raise DeployError(f"{file}: {error}") from error
    return found


def _versions() -> str:
    asked = ["git", "log", "-1", "--format=%H %cI"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    asked = ["git", "status", "--porcelain"]
    changed = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    lines = [
        f"repository {commit or 'unknown'}, {len(changed.splitlines())} files changed or new",
        f"pyinfra {version('pyinfra')}",
        f"Python {platform.python_version()} on {platform.system()} {platform.release()}",
    ]
    return "\n".join([*lines, ""])
