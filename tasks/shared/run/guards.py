"""Refusals and exit codes that pyinfra 3.10 lacks; config.py installs them for every run.

Without them an empty inventory, an interrupt and a declined prompt end with exit status 0, and a
dry run with `--yes` prints an empty plan.
"""

import io
import os
import shlex
import signal
import sys
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

import click
import gevent
import pyinfra
from pyinfra import state
from pyinfra.api import Config, Host, Inventory
from pyinfra.api.state import StateStage

from tasks.shared.run import environment, ssh, sudo
from tasks.shared.run.refusals import refuse

OLDEST_PYTHON = (3, 11)
NEWEST_PYTHON = (3, 13)
OLDEST_PYINFRA_3 = 10
INTERRUPTED = 128 + signal.SIGINT


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> None:
    """End the run unless `version` is one that the requirements are pinned for."""
    if OLDEST_PYTHON <= version[:2] <= NEWEST_PYTHON:
        return
    running, oldest, newest = (
        ".".join(map(str, each)) for each in (version, OLDEST_PYTHON, NEWEST_PYTHON)
    )
    refuse(
        f"Python {running} runs pyinfra; {oldest} to {newest} is needed:"
        " `make venv` makes a .venv that has it"
    )


def check_pyinfra(version: str = pyinfra.__version__) -> None:
    """End the run unless `version` is one whose inner workings are known here."""
    major, minor = version.split(".")[:2]
    if major != "3" or int(minor) < OLDEST_PYINFRA_3:
        refuse(
            f"pyinfra {version} runs this; 3.{OLDEST_PYINFRA_3} or a later 3 is needed: "
            "use .venv/bin/pyinfra, which `make venv` makes"
        )


def install() -> None:
    """Check the command line, and arm the guards that act later in this run.

    Only valid inside pyinfra's click command.
    """
    options = click.get_current_context().params
    _command_line.update(options)
    check_options(options)
    check_inventory_argument(options["inventory"])
    check_hosts_on_init(options)
    sys.stdin = PromptInput(sys.stdin)
    signal.signal(signal.SIGINT, exit_interrupted)


_command_line: dict[str, Any] = {}


_KEPT_LISTS = ("data", "group_data", "limit", "exclude")
_KEPT_VALUES = ("ssh_user", "ssh_port", "ssh_key", "sudo_user")
_KEPT_FLAGS = ("sudo", "use_sudo_password")


def command_for(task: str) -> str:
    """The command that runs another task as this run was called: same hosts, data and user.

    Passwords are left out.
    """
    options = _command_line
    program, here = Path(sys.argv[0]), Path.cwd()
    words = [str(program.relative_to(here) if program.is_relative_to(here) else program)]
    words += [str(options.get("inventory", "inventory.py")), task]
    for option in _KEPT_LISTS:
        for value in options.get(option) or ():
            words += [_flag(option), str(value)]
    for option in _KEPT_VALUES:
        if options.get(option):
            words += [_flag(option), str(options[option])]
    words += [_flag(option) for option in _KEPT_FLAGS if options.get(option)]
    return shlex.join(words)


def runs_alone(task: str) -> bool:
    """Is this task all that the command line asks for?"""
    return list(_command_line.get("operations") or ()) == [task]


def is_dry() -> bool:
    """Does this run change nothing?"""
    return bool(_command_line.get("dry"))


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse --dry with --yes, which shows nothing, and --data without a value."""
    if options["dry"] and options["yes"]:
        refuse("--dry together with -y, --yes or PYINFRA_YES plans nothing: drop one of them")
    for told in options["data"]:
        if "=" not in told:
            refuse(f"--data {told}: has no value, expected --data {told}=VALUE")


def check_inventory_argument(inventory: str) -> None:
    """Refuse a file name without a file.

    pyinfra would look it up as a Python module and in the DNS (.py is a country) instead.
    """
    if "," in inventory or "@" in inventory:
        return
    path = Path(inventory)
    if path.is_dir():
        refuse(f"inventory {inventory}: is a folder, expected a file: {path / '….py'}")
    if (path.suffix == ".py" or os.sep in inventory) and not path.exists():
        refuse(f"inventory {inventory}: no such file, expected e.g. inventory.py")


def check_hosts_on_init(options: Mapping[str, Any]) -> None:
    """Check the hosts of this run as soon as they are known, before any is connected to."""
    init = state.init

    def checked_init(
        inventory: Inventory, config: Config | None, initial_limit: list[Host] | None = None
    ) -> None:
        check_hosts(inventory, options)
        if initial_limit is not None and not initial_limit:
            refuse("--limit and --exclude leave no host: nothing would be done")
        init(inventory, config, initial_limit=initial_limit)
        sudo.take_passwords(inventory, state.config)
        ssh.hide_passwords(inventory)
        environment.give(inventory)

    # pyinfra has no hook between reading the inventory and connecting.
    state.init = checked_init  # type: ignore[method-assign]


def check_hosts(inventory: Inventory, options: Mapping[str, Any]) -> None:
    """End the run when there is no host, or a --limit or --exclude matches none."""
    known = [host.name for host in inventory]
    if not known:
        refuse(
            f"inventory {options['inventory']}: has no hosts,"
            " expected an inventory file, host names or @local"
        )
    for option in ("limit", "exclude"):
        for pattern in options[option]:
            if not inventory.groups.get(pattern) and not _matches(pattern, known):
                refuse(
                    f"--{option} {pattern}: matches no host,"
                    f" expected a group or one of {', '.join(sorted(known))}"
                )


def _matches(pattern: str, names: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for name in names)


class PromptInput:
    """Standard input for pyinfra's prompts: all but a plain Enter ends the run with a clear line.

    pyinfra itself exits 0 on another answer, and with a traceback at the end of the input.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def readline(self, size: int = -1) -> str:
        """Return the empty line of an Enter; anything else ends the run.

        Where nothing would be changed there is nothing to agree to, and nobody is waited for.
        """
        if plans_nothing():
            return "\n"
        line = self._stream.readline(size) if self._stream else ""
        if not line:
            refuse("nobody answers the prompt: -y goes ahead unasked, --dry only shows the plan")
        if line.strip():
            refuse(f"declined with {line.strip()!r}: only Enter goes ahead")
        return line

    def fileno(self) -> int:
        """Refuse, so that input() calls readline() on a terminal too."""
        raise io.UnsupportedOperation("fileno")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_found_wanting: set[Host] = set()


def end_with_failure(host: Host) -> None:
    """Let the run end with exit status 1, once every other host has been looked at, too.

    An exception would end it for all hosts at once.
    """
    _found_wanting.add(host)
    state.failed_hosts.add(host)


def plans_nothing() -> bool:
    """Has every host been looked at, and is there nothing to do on any?"""
    prepared = state.initialised and state.current_stage == StateStage.Prepare
    if not prepared or state.failed_hosts - _found_wanting:
        return False
    return not state.get_op_order()  # type: ignore[no-untyped-call]


def exit_interrupted(_signal: int, _frame: FrameType | None) -> NoReturn:
    """End the run by SIGINT as a shell expects it, without waiting for the running operation."""
    # Not through sys.stderr: the signal may have come in the middle of a write to it.
    os.write(2, b"\n--> Interrupted: what a host was running may still run; run this again\n")
    if state.initialised:
        state.pool.kill(block=False)  # pyinfra disconnects through the same, perhaps full, pool
    # The signal may have come in a greenlet of paramiko's that swallows what is raised in it.
    gevent.get_hub().handle_system_error(SystemExit, SystemExit(INTERRUPTED))
    sys.exit(INTERRUPTED)
