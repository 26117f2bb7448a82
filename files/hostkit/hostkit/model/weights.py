"""Is a folder a complete model? Reads names, sizes and headers, never the weights themselves.

The control machine asks the same question of a folder before it uploads it.
"""

import contextlib
import hashlib
import json
import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hostkit.host import serviceuser
from hostkit.model import modelconfig

INDEX = "model.safetensors.index.json"
MISFIT = "complete, but "
"""What a problem of a folder begins with that another copy of it would not cure."""

MARKER = ".source"
"""The file in a folder that says where it was brought from."""


def files(folder: Path) -> list[Path]:
    """The files of a model's folder, by name; sub-folders and hidden files are not part of it."""
    return sorted(
        entry for entry in folder.iterdir() if entry.is_file() and not entry.name.startswith(".")
    )


def problems(folder: Path) -> list[str]:
    """What keeps vLLM from loading this folder, a line each; empty for a complete model."""
    try:
        return _problems(folder)
    except PermissionError as error:
        return [f"user {pwd.getpwuid(os.geteuid()).pw_name} may not read {error.filename}"]


def _problems(folder: Path) -> list[str]:
    if not folder.is_dir():
        return ["there is no such folder"]
    config = _json_object(folder / "config.json") if (folder / "config.json").is_file() else {}
    foreign = modelconfig.foreign_format(folder, config or {})
    if foreign:
        return [foreign]
    names = {file.name for file in files(folder)}
    shards = {name for name in names if name.endswith(".safetensors")}
    found = _json_problems(folder / "config.json")
    if INDEX in names:
        index = _json_object(folder / INDEX)
        if index is None:
            return [*found, f"{INDEX} is not readable as JSON"]
        wanted = set(index.get("weight_map", {}).values())
        found += [f"shard {name} of {INDEX} is missing" for name in sorted(wanted - shards)]
        shards &= wanted
    elif not shards:
        found.append(f"no *.safetensors file among {len(names)} files")
    for name in sorted(shards):
        found += _size_problems(folder / name)
    return found


def _json_problems(path: Path) -> list[str]:
    if not path.is_file():
        return [f"{path.name} is missing"]
    return [] if _json_object(path) is not None else [f"{path.name} is not readable as JSON"]


def _json_object(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _size_problems(shard: Path) -> list[str]:
    actual = shard.stat().st_size
    try:
        expected = safetensors_size(shard)
    except ValueError as error:
        return [f"{shard.name}: {error}"]
    if actual != expected:
        return [f"{shard.name} has {actual} bytes, its header says {expected}"]
    return []


def safetensors_size(path: Path) -> int:
    """The size in bytes that a safetensors file must have, by its own header.

    The format: 8 bytes little-endian length of the header, the header as JSON, then the tensors at
    the offsets that the header gives. ValueError when there is no such header.
    """
    with path.open("rb") as file:
        prefix = file.read(8)
        if len(prefix) < 8:
            raise ValueError("too short for a safetensors file")
        length = int.from_bytes(prefix, "little")
        if length > 100_000_000:
            raise ValueError("not a safetensors file")
        try:
            header = json.loads(file.read(length))
            ends: list[int] = [
                entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"
            ]
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            raise ValueError("its header is cut off or damaged") from None
    return 8 + length + max(ends, default=0)


def identity(folder: Path) -> str:
    """Tells one state of a model's folder from another: names, sizes and times of its files.

    The same as tasks/shared/facts/files.py makes of what `find` prints.
    """
    lines = []
    for file in files(folder):
        info = file.stat()
        seconds, nanoseconds = divmod(info.st_mtime_ns, 10**9)
        # `find` prints times with ten digits.
        lines.append(f"{file.name} {info.st_size} {seconds}.{nanoseconds:09}0")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


@contextlib.contextmanager
def as_service_user() -> Iterator[None]:
    """Look at files as the server will: what only root can read is of no use to it."""
    user = serviceuser.to_become()
    if user is None:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(user.pw_gid)
    os.seteuid(user.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("check-model", help="is this folder a complete model?")
    parser.add_argument("folder", type=Path)
    modelconfig.add_options(parser)
    parser.set_defaults(run=_check)


def _check(args: Any) -> int:
    with as_service_user():
        found = problems(args.folder)
        if not found:
            misfits = modelconfig.misfits(args.folder, **modelconfig.options(args))
            found = [f"{MISFIT}{line}" for line in misfits]
    for line in found:
        print(f"{args.folder}: {line}", file=sys.stderr)
    return 1 if found else 0
