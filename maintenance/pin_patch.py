"""make pin-patch URL=https://github.com/…/commit/<40 digits>.patch [V=0.31.0] [SOURCE=…]

Fetches a patch, shows what it touches, tries it on vLLM's sources behind the series, keeps it and
prints the entry for `pinned_patches` in group_data/all.py. SOURCE is a git repository with vLLM's
tags; FILE, when set, is the patch as it was saved by other means.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostkit.host.process import Failure, run
from hostkit.release import overlay, wheel
from tasks.shared.release import patches

UPSTREAM = "https://github.com/vllm-project/vllm"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make pin-patch", description="pin a patch by URL")
    parser.add_argument("url")
    parser.add_argument("version")
    parser.add_argument("--source", default=UPSTREAM, help="a git repository with vLLM's tags")
    parser.add_argument("--file", type=Path, help="the patch, saved by other means")
    args = parser.parse_args(arguments)
    try:
        entry = pin(args.url, args.version, args.source, args.file)
    except (Failure, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\nFor pinned_patches in group_data/all.py:\n")
    print(literal(entry))
    return 0


def pin(url: str, version: str, source: str, file: Path | None) -> dict[str, Any]:
    """Fetch, show, try and keep a patch; returns its entry."""
    if not re.fullmatch(r"https://\S+/commit/[0-9a-f]{40}\.patch", url):
        raise ValueError(
            f"URL={url}: expected https://…/commit/<40 digits>.patch: a pull request's own .patch "
            "changes with each push, one commit does not"
        )
    series = patches.series(version)
    text = file.read_text(encoding="utf-8") if file else patches.fetch(url)
    hunks = patches.hunks_sha256(text)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        tree = check_out(source, f"v{version}", work)
        _require_whole(overlay.apply_series(tree, _on_disk(version, series), will_compile=True))
        candidate = work / "candidate.patch"
        candidate.write_text(text, encoding="utf-8")
        print(show(candidate, tree))
        files = try_on(tree, candidate)
    compiled = [path for path in files if not path.startswith("vllm/") or path[-3:] != ".py"]
    route = f"build from source, because of {compiled[0]}" if compiled else "overlay"
    print(f"it fits vLLM {version} behind {len(series)} patches of the series; route: {route}")
    kept = patches.PINNED / url.rpartition("/")[2]
    patches.keep(kept, text, hunks)
    print(f"kept as {kept}: commit it, and no deploy needs to fetch it")
    return {
        "url": url,
        "vllm_version": version,
        "why": "write here why it is needed",
        "hunks_sha256": hunks,
        "files": files,
    }


def check_out(source: str, tag: str, work: Path) -> Path:
    """The tree of a tag."""
    repository, tree = work / "repository", work / "tree"
    tree.mkdir()
    env = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    run(["git", "init", "--quiet", "--bare", repository], "git init")
    git = ["git", "-C", str(repository)]
    fetch = [*git, "fetch", "--quiet", "--depth=1", source, f"refs/tags/{tag}"]
    run(fetch, f"fetch {tag} from {source}", env=env)
    archive = work / "tree.tar"
    run([*git, "archive", f"--output={archive}", "FETCH_HEAD"], "git archive")
    run(["tar", "-xf", archive, "-C", tree], "unpack the sources")
    return tree


def show(patch: Path, tree: Path) -> str:
    """What a patch touches, as git counts it."""
    return run(["git", "apply", "--stat", "-p1", patch], "this is not a patch", cwd=tree).rstrip()


def try_on(tree: Path, patch: Path) -> dict[str, dict[str, str]]:
    """Apply a patch; returns each file's sha256 before and after."""
    touched = sorted(overlay.touched(tree, patch))
    before = {path: _hash(tree / path) for path in touched}
    try:
        overlay.git_apply(tree, "--check", str(patch))
    except Failure as failure:
        raise Failure(f"it does not fit: {failure}") from failure
    overlay.git_apply(tree, str(patch))
    found = {}
    for path in touched:
        sides = {"before": before[path], "after": _hash(tree / path)}
        found[path] = {side: digest for side, digest in sides.items() if digest}
    return found


def literal(entry: dict[str, Any]) -> str:
    """The entry as it stands in group_data/all.py."""
    text = json.dumps(entry, indent=4, ensure_ascii=False)
    return "".join(f"    {line}\n" for line in f"{text},".splitlines())


def _on_disk(version: str, series: Sequence[patches.Patch]) -> list[overlay.Patch]:
    folder = (patches.PATCHES / f"vllm-{version}").resolve()
    return [
        overlay.Patch(
            folder / patch.name,
            {path: overlay.Change(h.before, h.after) for path, h in patch.files.items()},
        )
        for patch in series
    ]


def _require_whole(outcomes: Sequence[overlay.Outcome]) -> None:
    for outcome in outcomes:
        if outcome.state == overlay.FAIL:
            raise Failure(f"the series itself does not fit: {outcome.name}: {outcome.reason}")


def _hash(path: Path) -> str:
    return wheel.sha256(path) if path.is_file() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
