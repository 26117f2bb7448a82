"""Gives a new generation its number, once its own vLLM has been asked about it.

It arrives on standard input and is unpacked by the process that stages it. That process holds a
lock on the folder, so that the next one sees at once whether anybody still works on a folder.
"""

import argparse
import base64
import contextlib
import fcntl
import gzip
import io
import os
import re
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hostkit.generation import generations, preflight
from hostkit.host import paths
from hostkit.host.process import Failure

_PREFIX = "candidate-"
_NAME = re.compile(rf"{_PREFIX}([a-z0-9_]{{8}}|[0-9a-f]{{12}}-[0-9a-f]{{8}}(\.new)?)")


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "stage", help="check a generation, a tar.gz in base64 on standard input, and number it"
    )
    parser.add_argument("generation", type=int)
    parser.set_defaults(run=_stage_command)


def _stage_command(args: argparse.Namespace) -> int:
    answer = stage(sys.stdin.read(), args.generation)
    print(f"generation {args.generation}: {answer.verdict} by its own vLLM: {answer.reason}")
    return 0


def stage(packed: str, number: int) -> preflight.Answer:
    """Failure when it arrived cut short, vLLM refuses it, or the number is another's by now.

    Nothing is left of it then. `packed` is what tasks/shared/trees.py makes.
    """
    with _candidate() as folder:
        _unpack(packed, folder)
        answer = preflight.vllm(folder)
        if answer.verdict == "refused":
            raise Failure(f"vLLM refuses this configuration, so it is not staged: {answer.reason}")
        preflight.keep(folder, answer)
        os.sync()
        _give(folder, number)
    return answer


def abandoned() -> list[Path]:
    """What is left of stagings that died: folders that nobody holds."""
    if not paths.GENERATIONS.is_dir():
        return []
    with _locked(paths.GENERATIONS):
        return _abandoned()


def _abandoned() -> list[Path]:
    return [
        folder
        for folder in sorted(paths.GENERATIONS.glob(f"{_PREFIX}*"))
        if _NAME.fullmatch(folder.name) and folder.is_dir() and not _is_held(folder)
    ]


@contextlib.contextmanager
def _candidate() -> Iterator[Path]:
    """A folder of our own, gone again unless it was given a number."""
    paths.GENERATIONS.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as locks:
        with _locked(paths.GENERATIONS):
            for left in _abandoned():
                shutil.rmtree(left, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=paths.GENERATIONS))
            locks.enter_context(_locked(folder))
        try:
            folder.chmod(0o755)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _give(folder: Path, number: int) -> None:
    target = generations.folder(number)
    with _locked(paths.GENERATIONS):
        if (target / generations.NOTE).exists():
            if _digest(target) != _digest(folder):
                raise Failure(f"generation {number} was taken in the meantime: run this again")
            return
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)


def _digest(folder: Path) -> str | None:
    note = generations.note_in(folder)
    return str(note["digest"]) if note else None


def _unpack(packed: str, folder: Path) -> None:
    """Files and links without folders; not by extractall, which Pythons filter differently."""
    try:
        # Whole before any of it is unpacked: tarfile does not miss an end that is not there.
        archived = io.BytesIO(gzip.decompress(base64.b64decode(packed)))
        with tarfile.open(fileobj=archived, mode="r:") as archive:
            for member in archive:
                path = folder / Path(member.name).name
                if member.issym():
                    path.symlink_to(member.linkname)
                elif file := archive.extractfile(member):
                    path.write_bytes(file.read())
    except (ValueError, EOFError, gzip.BadGzipFile, tarfile.TarError, zlib.error) as error:
        raise Failure("the generation arrived cut short: run this again") from error
    missing = {*generations.FILES, "release"} - {path.name for path in folder.iterdir()}
    if missing:
        raise Failure(f"the generation arrived without {', '.join(sorted(missing))}")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, for which others wait; it ends with this process."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _is_held(folder: Path) -> bool:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
