"""The command line of hostkit: each module brings its own subcommands."""

import argparse
import sys

from hostkit import fetch, jobs, release, service, start, state, ternary, weights
from hostkit.process import Failure


def main(arguments: list[str]) -> int:
    """Run one subcommand; returns its exit status. What fails is said in one line."""
    parser = argparse.ArgumentParser(prog="hostkit", description="What runs on a vLLM host.")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in (start, state, service, release, jobs, weights, fetch, ternary):
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
