"""make new-version V=0.32.0: what another version of vLLM needs before it can be deployed.

Locks it, tries the newest series on its wheel, writes a series for it when every patch either
applies or is merged upstream, and shows what changed in vLLM's own flags and defaults.
"""

import argparse
import difflib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostkit.host.process import Failure, run
from hostkit.release import overlay, wheel
from maintenance import flags, manifest
from tasks.shared.engine import compat
from tasks.shared.release import packages, patches, releases

APPLIES = "applies"
MERGED = "merged upstream"
CONFLICTS = "conflicts"


@dataclass(frozen=True)
class Tried:
    """How a patch fared on another version; `files` are those it touches, before and after."""

    patch: patches.Patch
    state: str
    reason: str = ""
    files: Mapping[str, tuple[str | None, str | None]] | None = None


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make new-version", description="adopt a vLLM version")
    parser.add_argument("version")
    args = parser.parse_args(arguments)
    try:
        return adopt(args.version)
    except (Failure, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def adopt(version: str) -> int:
    """Do all of it; the exit status says whether the version can be deployed now."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"V={version}: expected a version of vLLM, for example V=0.32.0")
    base = newest_before(version)
    print(f"vLLM {version}, after {base}")
    _lock(version)
    with tempfile.TemporaryDirectory() as folder:
        old, new = (unpack(_locked(v), Path(folder) / v) for v in (base, version))
        tried = [] if base == version else try_series(new, base)
        changes = flags.changes(flags.read(old), flags.read(new))
    print(f"\nThe series of {base} on the wheel of {version}:")
    for each in tried:
        print(f"  {each.patch.name}: {each.state}{each.reason and ': '}{each.reason}")
    started = manifest.start(version, base, changes)
    known = compat.manifest(version)
    unjudged = manifest.unjudged(changes, known)
    print("\nWhat vLLM can be told, and its defaults; ? where the manifest has no word on it:")
    for change in changes:
        print(f"  {'?' if change in unjudged else ' '} {change.line}")
    print(f"  {len(changes)} differences, {len(unjudged)} without a word in files/compat")
    if started:
        print(f"\nStarted: {compat.MANIFESTS}/vllm-{version}/")
    broken = manifest.broken(changes, known)
    open_questions = [*unknown(version), *broken, *conflicts(tried)]
    if not any(each.state == CONFLICTS for each in tried):
        write_series(version, tried)
        print(f"\nWritten: {patches.PATCHES}/vllm-{version}/")
    print("\nTo be settled before it serves:")
    for line in open_questions or ["nothing that this can see: load_test.py sees more"]:
        print(f"  {line}")
    return 1 if releases.missing(version) or broken else 0


def newest_before(version: str) -> str:
    """The newest version with a series that is older; itself is none."""
    have = [path.parent.name for path in patches.PATCHES.glob("vllm-*/series.toml")]
    versions = [name.removeprefix("vllm-") for name in have]
    older = [v for v in versions if patches.numbers(v) < patches.numbers(version)]
    if not older:
        raise ValueError(f"{version} is older than every version with a series: {versions}")
    return max(older, key=patches.numbers)


def try_series(root: Path, base: str) -> list[Tried]:
    """Apply a version's series to the tree of another one, in order, whole or not at all."""
    folder = (patches.PATCHES / f"vllm-{base}").resolve()
    return [try_patch(root, patch, folder / patch.name) for patch in patches.series(base)]


def try_patch(root: Path, patch: patches.Patch, file: Path) -> Tried:
    """Apply one patch where it fits; a tree on which it does not fit stays as it was."""
    before = {path: _text(root / path) for path in patch.files}
    try:
        overlay.git_apply(root, "--check", str(file))
    except Failure as failure:
        try:
            overlay.git_apply(root, "--check", "--reverse", str(file))
        except Failure:
            return Tried(patch, CONFLICTS, str(failure))
        return Tried(patch, MERGED)
    overlay.git_apply(root, str(file))
    return Tried(patch, APPLIES, "", {p: (before[p], _text(root / p)) for p in patch.files})


def write_series(version: str, tried: Sequence[Tried]) -> None:
    """The series of a new version: every patch that applies, made anew for its sources."""
    folder = patches.PATCHES / f"vllm-{version}"
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    entries = [
        "# The patches of this vLLM version, in the order in which they are applied.\n"
        "# Every patch of the folder is listed here; before and after are sha256 sums of the file."
    ]
    for each in tried:
        if each.files is None:
            continue
        source = next(patches.PATCHES.glob(f"vllm-*/{each.patch.name}"))
        head = source.read_text(encoding="utf-8").partition("diff --git ")[0]
        body = "".join(_diff(path, *texts) for path, texts in sorted(each.files.items()))
        (fresh / each.patch.name).write_text(head + body, encoding="utf-8")
        entries.append(_entry(each.patch, each.files))
    (fresh / "series.toml").write_text("\n\n".join(entries) + "\n", encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    patches.series(version)


def conflicts(tried: Sequence[Tried]) -> list[str]:
    return [
        f"{each.patch.name} does not fit: write it for this version, then run this again"
        for each in tried
        if each.state == CONFLICTS
    ]


def unknown(version: str) -> list[str]:
    """What has not been tried with this version."""
    if version in packages.checked_versions():
        return []
    checked = ", ".join(packages.checked_versions())
    return [
        f"files/scheduler was tested on {checked} only: prefill_order = 'shortest_first' is refused"
    ]


def unpack(pin: Path, work: Path) -> Path:
    """Download the CPU wheel that a lock pins, and unpack it: its Python is the CUDA wheel's."""
    work.mkdir()
    requirement = wheel.parse_pin(pin.read_text(encoding="utf-8"))
    print(f"download {requirement}", flush=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    checked = ["--no-deps", "--only-binary=:all:", "--require-hashes"]
    run([*pip, *checked, "-r", pin, "-d", work], f"download {requirement}")
    (archive,) = work.glob("*.whl")
    shutil.unpack_archive(archive, work / "tree", format="zip")
    return work / "tree"


def _lock(version: str) -> None:
    if version in releases.locked():
        print("it is locked")
        return
    print("lock it", flush=True)
    done = subprocess.run(
        [releases.LOCKS / "compile.sh"], env={**os.environ, "VERSIONS": version}, check=False
    )
    if done.returncode:
        raise Failure(f"files/locks/compile.sh could not lock {version}")


def _locked(version: str) -> Path:
    return (releases.LOCKS / f"vllm-{version}-cpu.wheel.txt").resolve()


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _diff(path: str, before: str | None, after: str | None) -> str:
    old, new = ((text or "").splitlines(keepends=True) for text in (before, after))
    sides = (
        ("/dev/null" if before is None else f"a/{path}"),
        ("/dev/null" if after is None else f"b/{path}"),
    )
    mode = "new file mode 100644\n" if before is None else ""
    return f"diff --git a/{path} b/{path}\n{mode}" + "".join(difflib.unified_diff(old, new, *sides))


def _entry(patch: patches.Patch, files: Mapping[str, tuple[str | None, str | None]]) -> str:
    lines = ["[[patch]]"]
    for key in ("name", "title", "upstream", "why", "until"):
        lines.append(f"{key} = {_quoted(getattr(patch, key))}")
    for path, texts in sorted(files.items()):
        lines += ["", f'[patch.files."{path}"]']
        for side, text in zip(("before", "after"), texts, strict=True):
            if text is not None:
                lines.append(f'{side} = "{_sha256(text)}"')
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
