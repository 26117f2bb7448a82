"""The command line of hostkit: each module brings its own subcommands."""

import argparse
import importlib
import os
import sys

from hostkit.host.process import Failure

MODULES = {
    "activate": "lifecycle.service",
    "adopt": "lifecycle.adopt",
    "after-stop": "lifecycle.hooks",
    "ask": "lifecycle.service",
    "before-start": "lifecycle.hooks",
    "build-release": "release.releases",
    "check-config": "generation.preflight",
    "check-cuda": "release.cuda",
    "check-model": "model.weights",
    "check-release": "release.releases",
    "check-switch": "lifecycle.switch",
    "doctor": "health.doctor",
    "failures": "health.failures",
    "fetch-model": "model.fetch",
    "figures": "metrics.exporter",
    "foreign": "lifecycle.adopt",
    "guard": "host.guard",
    "install-unit": "lifecycle.service",
    "job": "host.jobs",
    "load-test": "measure.loadtest",
    "notify": "health.notify",
    "outlook": "serving.outlook",
    "pace": "measure.pace",
    "pack-ternary": "model.ternary",
    "probe": "lifecycle.service",
    "prune": "kv.prune",
    "quality": "measure.quality",
    "retain": "generation.retention",
    "settle": "lifecycle.settle",
    "stage": "generation.staging",
    "start": "generation.start",
    "state": "health.state",
    "sweep": "host.sweep",
    "switch": "lifecycle.switch",
    "traffic": "metrics.traffic",
    "trust-key": "release.cuda",
    "uninstall": "lifecycle.uninstall",
    "verify": "lifecycle.service",
    "watch-progress": "health.hang",
}
"""The module of each subcommand. Only that one is loaded, since no bytecode is kept on a host."""

FOR_PEOPLE = (
    "For people: ask, state, failures, sweep, prune, quality, pace, figures, check-config, "
    "check-release, check-model, notify and pack-ternary. The deploy and units call the others."
)


def main(arguments: list[str]) -> int:
    """Run one subcommand; returns its exit status. What fails is said in one line."""
    if os.geteuid() == 0:
        _as_root()
    parser = argparse.ArgumentParser(
        prog="hostkit", description="What runs on a vLLM host.", epilog=FOR_PEOPLE
    )
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    known = arguments and MODULES.get(arguments[0])
    for module in [known] if known else dict.fromkeys(MODULES.values()):
        importlib.import_module(f"hostkit.{module}").register(subparsers)
    args = parser.parse_args(arguments)
    try:
        if getattr(args, "fetches", False):
            importlib.import_module("hostkit.host.network").enter()
        return int(args.run(args))
    except PermissionError as error:
        print(f"hostkit: only root may do this ({error.filename}): use sudo", file=sys.stderr)
        return 1
    except (Failure, OSError, ValueError) as error:
        print(f"hostkit: {error}", file=sys.stderr)
        if "HOSTKIT_JOB" in os.environ:
            importlib.import_module("hostkit.host.jobs").tell_error(str(error))
        return 1


def _as_root() -> None:
    """Do not depend on how root came here: by a login, by sudo, by systemd."""
    # The service has to read what is made; a file with a secret names its own mode.
    os.umask(0o022)
    # userdel, and what dpkg runs.
    os.environ["PATH"] = f"{os.environ.get('PATH') or '/usr/bin:/bin'}:/usr/sbin:/sbin"
