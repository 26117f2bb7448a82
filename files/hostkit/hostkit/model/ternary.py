"""Packs a ternary checkpoint with a release's own Python, which has the numpy that it takes."""

import argparse
import os
from pathlib import Path
from typing import Any

from hostkit.host import paths
from hostkit.host.jobs import progress
from hostkit.host.process import Failure, run
from hostkit.model import weights

SCRIPT = Path(__file__).parents[2] / "scripts/ternary.py"


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "pack-ternary", help="pack a ternary model's folder into int4 or int2, without loss"
    )
    parser.add_argument("source", type=Path, metavar="SOURCE")
    parser.add_argument("target", type=Path, metavar="TARGET")
    parser.add_argument("--bits", choices=("4", "2"), default="4")
    parser.add_argument(
        "--keep", action="append", default=[], metavar="REGEX", help="weights to leave as they are"
    )
    parser.add_argument("--release", help="whose Python; the newest one's when not given")
    parser.set_defaults(run=pack)


def pack(args: argparse.Namespace) -> int:
    """Write the packed model beside the one that it is made of."""
    problems = weights.problems(args.source)
    if problems:
        raise Failure(f"{args.source}: {'; '.join(problems)}")
    os.umask(0o022)
    options = [f"--bits={args.bits}", *(f"--keep={pattern}" for pattern in args.keep)]
    progress(f"packing {args.source}")
    python = _release(args.release) / "venv/bin/python"
    done = run([python, "-IB", SCRIPT, args.source, args.target, *options], "pack-ternary")
    print(done, end="")
    return 0


def _release(name: str | None) -> Path:
    if name:
        return paths.RELEASES / Path(name).name
    manifests = paths.RELEASES.glob("*/manifest.json")
    newest = max(manifests, key=lambda file: file.stat().st_mtime, default=None)
    if newest is None:
        raise Failure("no release is built on this host: run tasks/build_vllm.py first")
    return newest.parent
