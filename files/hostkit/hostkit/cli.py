"""The command line of hostkit: each module brings its own subcommands."""

import argparse
import sys

from hostkit import (
    adopt,
    cuda,
    failures,
    fetch,
    guard,
    hang,
    hooks,
    jobs,
    notify,
    outlook,
    preflight,
    prune,
    quality,
    release,
    retention,
    service,
    settle,
    start,
    state,
    sweep,
    switch,
    ternary,
    uninstall,
    weights,
)
from hostkit.process import Failure

_MODULES = (
    adopt,
    uninstall,
    start,
    state,
    service,
    switch,
    settle,
    outlook,
    quality,
    release,
    jobs,
    weights,
    fetch,
    ternary,
    cuda,
    hooks,
    sweep,
    failures,
    hang,
    notify,
    preflight,
    prune,
    guard,
    retention,
)


def main(arguments: list[str]) -> int:
    """Run one subcommand; returns its exit status. What fails is said in one line."""
    parser = argparse.ArgumentParser(prog="hostkit", description="What runs on a vLLM host.")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in _MODULES:
        module.register(subparsers)
    args = parser.parse_args(arguments)
    try:
        return int(args.run(args))
    except PermissionError as error:
        print(f"hostkit: only root may do this ({error.filename}): use sudo", file=sys.stderr)
        return 1
    except (Failure, OSError, ValueError) as error:
        print(f"hostkit: {error}", file=sys.stderr)
        return 1
