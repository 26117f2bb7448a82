"""Canaries: known secrets, looked for in everything that a deploy leaves or shows.

Each may lie in its own 0600 files and nowhere else. That the search finds it there, and finds the
bait that is laid out in the places that are often empty, shows that the search works.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import os
import shlex
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from . import deploys
from .host import state

BAIT = "bait-4f1c9a7e2d"
BAITED = ("/tmp", "/var/tmp", "/dev/shm")
PLACES = (
    *("/etc/vllm", "/opt/vllm/generations", "/opt/vllm/releases", "/opt/vllm/inputs"),
    *("/var/lib/vllm", "/run/vllm", "/run/systemd", "/etc/systemd"),
    *("/var/log", "/root", "/home", *BAITED),
)
_NOT_OURS = {"root", ".git", ".venv", "lab"}
_UNPRIVILEGED = "setpriv --reuid=nobody --regid=nogroup --clear-groups"
_STOP = "/run/spy-may-stop"
_SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True)
class Canary:
    """A secret, and the files of the host in which it has to be: root's alone."""

    name: str
    value: str
    files: tuple[str, ...] = ()

    @property
    def forms(self) -> list[str]:
        """As it is, in a URL, and within anything that was encoded in base64."""
        encoded = [
            base64.b64encode(b"x" * shift + self.value.encode()).decode()[4:-4].rstrip("=")
            for shift in range(3)
        ]
        return sorted({self.value, quote(self.value, safe=""), *encoded})


@dataclass
class Found:
    """What was searched, how much of it there was, and where something was found.

    `searched` counts bytes, or looks, by place; `hits` are (canary, place, what).
    """

    searched: dict[str, int] = field(default_factory=dict)
    hits: set[tuple[str, str, str]] = field(default_factory=set)

    def of(self, name: str) -> set[tuple[str, str]]:
        return {(place, what) for canary, place, what in self.hits if canary == name}


def search_host(host: str, canaries: Sequence[Canary], ports: Sequence[int]) -> Found:
    """Look through all files, the journal, processes, units and metrics of a host."""
    told = _told(canaries) | {"ports": [*ports], "places": PLACES}
    laid = " ".join(f"{folder}/bait" for folder in BAITED)
    deploys.on_host(f"echo {BAIT} | tee {laid} >/dev/null", host=host)
    try:
        answer = json.loads(_run(host, "search_host.py", told))
    finally:
        deploys.on_host(f"rm -f {laid}", host=host)
    hits = {(name, place, what) for name, rows in answer["hits"].items() for place, what in rows}
    return Found(answer["searched"], hits)


@contextlib.contextmanager
def spied(host: str, canaries: Sequence[Canary]) -> Iterator[Found]:
    """While it lasts, a user without rights reads all that it can on the host; then it is told."""
    deploys.on_host(f"rm -f {_STOP}", host=host)
    told = _told(canaries) | {"stop": _STOP}
    spy = subprocess.Popen(
        state.load(host).ssh_command(f"{_UNPRIVILEGED} python3 -IB -c {_script('spy.py')}"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    found = Found()
    assert spy.stdin
    assert spy.stdout
    try:
        json.dump(told, spy.stdin)
        spy.stdin.close()
        assert spy.stdout.readline() == "looking\n"
        bait = f"install -m 644 /dev/null /tmp/bait && echo {BAIT} >/tmp/bait"
        deploys.on_host(
            f"{bait}; {_UNPRIVILEGED} env X={BAIT} sh -c 'sleep 2; :'; rm /tmp/bait", host=host
        )
        yield found
    finally:
        deploys.on_host(f"touch {_STOP}", host=host)
        answer = json.loads(spy.stdout.read() or "{}")
        spy.wait(60)
        deploys.on_host(f"rm -f {_STOP}", host=host)
    found.searched.update(answer["looks"])
    found.hits |= {(name, "as nobody", where) for name, where in answer["found"]}


def search_texts(canaries: Sequence[Canary], texts: Mapping[str, str | bytes]) -> Found:
    """Look through texts by their names; archives are unpacked."""
    found = Found()
    for name, text in texts.items():
        content = text.encode() if isinstance(text, str) else text
        found.searched[name] = len(content)
        for part in (content, *_unpacked(content)):
            for canary in canaries:
                if any(form.encode() in part for form in canary.forms):
                    found.hits.add((canary.name, "text", name))
    return found


def search_control(host: str, canaries: Sequence[Canary], since: float) -> Found:
    """Look through what was written on this machine since then, wherever runs write to."""
    texts: dict[str, str | bytes] = {}
    own = (deploys.checkout(host), state.load(host).folder)
    shared = map(Path, (tempfile.gettempdir(), "/var/tmp", "/dev/shm"))
    for file in (file for top in (*own, *shared) for file in _files(top)):
        with contextlib.suppress(OSError):
            found = file.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_mtime >= since:
                texts[f"{file} {found.st_mode & 0o777:o}"] = file.read_bytes()
    return search_texts(canaries, texts)


def _files(top: Path) -> Iterator[Path]:
    """The files below a folder, but for what is no run's: a host's own tree, other work here."""
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name not in _NOT_OURS]
        yield from (Path(folder, name) for name in names)


def _unpacked(content: bytes) -> Iterator[bytes]:
    with contextlib.suppress(tarfile.TarError, EOFError, OSError):
        if content.startswith(b"\x1f\x8b"):
            yield gzip.decompress(content)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for member in archive:
                if file := archive.extractfile(member):
                    yield file.read()


def _told(canaries: Sequence[Canary]) -> dict[str, Any]:
    bait = Canary("bait", BAIT)
    return {"canaries": {each.name: each.forms for each in (*canaries, bait)}}


def _script(name: str) -> str:
    return shlex.quote((_SCRIPTS / name).read_text(encoding="utf-8"))


def _run(host: str, script: str, told: Mapping[str, Any]) -> str:
    done = subprocess.run(
        state.load(host).ssh_command(f"python3 -IB -c {_script(script)}"),
        input=json.dumps(told),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
