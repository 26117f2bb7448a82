"""The command line of hostkit: each module brings its own subcommands."""

import argparse
import importlib
import os
import sys

from hostkit.process import Failure

MODULES = {
    "activate": "service",
    "adopt": "adopt",
    "after-stop": "hooks",
    "ask": "service",
    "before-start": "hooks",
    "build-release": "release",
    "check-config": "preflight",
    "check-cuda": "cuda",
    "check-model": "weights",
    "check-release": "release",
    "check-switch": "switch",
    "doctor": "doctor",
    "failures": "failures",
    "fetch-model": "fetch",
    "figures": "exporter",
    "foreign": "adopt",
    "guard": "guard",
    "install-unit": "service",
    "job": "jobs",
    "load-test": "loadtest",
    "notify": "notify",
    "outlook": "outlook",
    "pace": "pace",
    "pack-ternary": "ternary",
    "probe": "service",
    "prune": "prune",
    "quality": "quality",
    "retain": "retention",
    "settle": "settle",
    "stage": "preflight",
    "start": "start",
    "state": "state",
    "sweep": "sweep",
    "switch": "switch",
    "traffic": "traffic",
    "trust-key": "cuda",
    "uninstall": "uninstall",
    "verify": "service",
    "watch-progress": "hang",
}
"""The module of each subcommand. Only that one is loaded, since no bytecode is kept on a host."""


def main(arguments: list[str]) -> int:
    """Run one subcommand; returns its exit status. What fails is said in one line."""
    parser = argparse.ArgumentParser(prog="hostkit", description="What runs on a vLLM host.")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    known = arguments and MODULES.get(arguments[0])
    for module in [known] if known else dict.fromkeys(MODULES.values()):
        importlib.import_module(f"hostkit.{module}").register(subparsers)
    args = parser.parse_args(arguments)
    try:
        if getattr(args, "fetches", False):
            importlib.import_module("hostkit.network").enter()
        return int(args.run(args))
    except PermissionError as error:
        print(f"hostkit: only root may do this ({error.filename}): use sudo", file=sys.stderr)
        return 1
    except (Failure, OSError, ValueError) as error:
        print(f"hostkit: {error}", file=sys.stderr)
        if "HOSTKIT_JOB" in os.environ:
            importlib.import_module("hostkit.jobs").tell_error(str(error))
        return 1
