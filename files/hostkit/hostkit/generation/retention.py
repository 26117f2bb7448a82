"""What is kept on the host, and what goes: generations, releases and what they were made of.

A release that a kept generation needs is never removed, nor one that a process runs from.
"""

import argparse
import contextlib
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hostkit.generation import generations, staging
from hostkit.host import mounts, paths
from hostkit.host.process import Failure, read_json
from hostkit.release import releases, wheel

_PINS = ("wheel.txt", "sdist.txt")
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
# A release's, a tool set's, a download's; what is called otherwise is not ours.
_NAME = re.compile(r"[0-9][0-9A-Za-z.]*-[0-9a-f]{12}|[0-9a-f]{12}|[0-9a-f]{64}")
_GONE = ".removed-"
_HALF_REMOVED = re.compile(rf"{re.escape(_GONE)}([0-9]+|{_NAME.pattern})")


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("retain", help="remove old generations and releases")
    parser.add_argument("--generations", type=int, required=True, help="how many to keep")
    parser.add_argument("--releases", type=int, required=True, help="how many to keep")
    parser.add_argument("--wanted", default="", help="a release that is kept in any case")
    parser.add_argument("--wanted-digest", default="", help="a generation that is, too")
    parser.add_argument("--dry-run", action="store_true", help="exit 1 when there is work")
    parser.set_defaults(run=_prune_command)


def _prune_command(args: argparse.Namespace) -> int:
    found = plan(args.generations, args.releases, args.wanted, args.wanted_digest)
    for path in found:
        print(f"{'would remove' if args.dry_run else 'remove'} {path}", flush=True)
        if not args.dry_run:
            _remove(path)
    return 1 if args.dry_run and found else 0


def plan(
    keep_generations: int, keep_releases: int, wanted: str, wanted_digest: str = ""
) -> list[Path]:
    """The folders that go, generations first: a release must not vanish from under one."""
    numbers = generations.numbers()
    linked = {generations.linked(link) for link in (paths.CURRENT, paths.PREVIOUS)}
    asked_for = {n for n in numbers if generations.note(n)["digest"] == wanted_digest}
    kept_numbers = newest(numbers, keep_generations, asked_for | {*numbers} & linked)
    needed = {str(generations.note(n)["release"]) for n in kept_numbers} | {wanted}
    built = _releases_by_age()
    kept = newest(built, keep_releases, {name for name in built if name in needed} | _running())
    inputs = [paths.OPT / "inputs" / name for name in kept]
    return [
        *staging.abandoned(),
        *_half_removed(),
        *(generations.folder(n) for n in numbers if n not in kept_numbers),
        *(paths.RELEASES / name for name in built if name not in kept),
        *_others(paths.OPT / "inputs", kept | needed),
        *_others(paths.BUILT, kept | needed),
        *_others(paths.TOOLS, _tools(inputs)),
        *_downloads(_hashes(inputs)),
    ]


def _downloads(kept: set[str]) -> list[Path]:
    return [path for folder in _caches() for path in _others(folder, kept)]


def _caches() -> list[Path]:
    # A mounted cache is shared: what no release here needs, one of another host may be made of.
    if mounts.is_point(paths.DOWNLOADS):
        return []
    return [paths.DOWNLOADS / "wheels", paths.DOWNLOADS / "sdists"]


def _half_removed() -> list[Path]:
    """What a removal that was cut off had taken the name from: a release has gigabytes."""
    own = (paths.GENERATIONS, paths.RELEASES, paths.OPT / "inputs", paths.BUILT, paths.TOOLS)
    entries = (path for folder in (*own, *_caches()) for path in folder.glob(f"{_GONE}*"))
    return sorted(path for path in entries if _HALF_REMOVED.fullmatch(path.name))


def newest(names: Sequence[Any], number: int, needed: set[Any]) -> set[Any]:
    """The last `number` of `names`, which are sorted by age, and all that are needed."""
    return {*names[max(len(names) - number, 0) :], *needed}


def _releases_by_age() -> list[str]:
    """Complete releases, oldest first; a damaged one is a build's own business."""
    ages: dict[str, str] = {}
    for manifest in paths.RELEASES.glob("[0-9]*/manifest.json"):
        with contextlib.suppress(Failure, AttributeError):
            ages[manifest.parent.name] = str(read_json(manifest).get("built_at", ""))
    return sorted(ages, key=lambda name: (ages[name], name))


def _running() -> set[str]:
    return {
        folder.name
        for folder in paths.RELEASES.glob("*")
        if folder.is_dir() and releases.process_using(folder) is not None
    }


def _others(folder: Path, kept: Iterable[str]) -> list[Path]:
    """Our folders in a folder, besides `kept`; a download in progress starts with a dot."""
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    ours = [path for path in entries if _NAME.fullmatch(path.name) and path.is_dir()]
    return [path for path in ours if path.name not in {*kept}]


def _tools(inputs: Iterable[Path]) -> set[str]:
    pins = (folder / "tools.txt" for folder in inputs)
    return {wheel.sha256(file)[:12] for file in pins if file.is_file()}


def _hashes(inputs: Iterable[Path]) -> set[str]:
    files = (folder / name for folder in inputs for name in _PINS)
    return {h for file in files if file.is_file() for h in _HASH.findall(file.read_text("utf-8"))}


def _remove(path: Path) -> None:
    """Take the name away first: what is half removed is nothing that a start or a build takes."""
    gone = path if path.name.startswith(_GONE) else path.with_name(f"{_GONE}{path.name}")
    try:
        if gone != path:
            shutil.rmtree(gone, ignore_errors=True)
            path.rename(gone)
        shutil.rmtree(gone)
    except FileNotFoundError:
        return  # Somebody else removes it at this moment.
    except OSError as error:
        raise Failure(f"cannot remove {path}: {error.strerror}") from error
