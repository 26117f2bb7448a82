"""A password for sudo that is on no command line and in nothing that a run prints.

pyinfra writes it into the command that it sends, where every user of the host can read it in the
process list. Here it is the first line of the command's standard input, and goes from there into
the environment of sudo's helper, which the user's own processes and root alone can read.
"""

import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import click
from pyinfra.api import Config, Host, QuoteString, State, StringCommand
from pyinfra.connectors import local, ssh, util
from pyinfra.connectors.util import CommandOutput, OutputLine

from tasks.shared.run.refusals import refuse

_VARIABLE = "DEPLOY_SUDO_PASSWORD"
# What other connectors set holds where ours is not set.
_TOLD = f"{{{_VARIABLE}:-${util.SUDO_ASKPASS_ENV_VAR}}}"
_ASKED = "prompted_sudo_password"
_PLACEHOLDER = "on-standard-input"
_READ = f"IFS= read -r {_VARIABLE} && export {_VARIABLE} &&"
_WRONG = re.compile(r"sudo: (\d+ incorrect password attempts?|no password was provided)")
_getpass = util.getpass


def keep_password_off_command_lines() -> None:
    """Do so for all hosts of this run that are reached by SSH, and for this machine."""
    util._ensure_sudo_askpass_set_for_host = _helper
    util.getpass = _ask  # type: ignore[assignment]
    for module, connector in ((ssh, ssh.SSHConnector), (local, local.LocalConnector)):
        module.make_unix_command_for_host = _with_read(module.make_unix_command_for_host)  # type: ignore[attr-defined]
        connector.run_shell_command = _with_input(connector.run_shell_command)  # type: ignore[method-assign]


def take_passwords(hosts: Iterable[Host], config: Config) -> None:
    """Keep them where pyinfra keeps one that it has asked for, and out of all that it prints.

    `--debug-operations` and `debug-inventory` would show those of data and configuration.
    """
    common, config.SUDO_PASSWORD = config.SUDO_PASSWORD, None
    for host in hosts:
        host.connector_data[_ASKED] = host.data.get("_sudo_password") or common
        host.data._sudo_password = None


def _helper(host: Host, temp_dir: str | None = None) -> str:
    """The path of the program that tells sudo the password; it holds no password itself."""
    return util._ensure_askpass_set_for_host(host, "sudo_askpass_path", _TOLD, temp_dir=temp_dir)


def _password(host: Host, arguments: dict[str, Any]) -> str | None:
    """What sudo will ask for; None without sudo, and as long as nobody was asked."""
    if not arguments.get("_sudo"):
        return None
    return arguments.get("_sudo_password") or host.connector_data.get(_ASKED)


def _ask(prompt: str) -> str:
    """Ask whoever sits at the terminal; without one, say how sudo gets its password then."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        host = click.unstyle(prompt).removesuffix("sudo password: ").strip()
        refuse(
            f"{host} sudo asks for a password, and there is no terminal to type it at: run this "
            "in one, or let sudo ask this user for none (NOPASSWD)"
        )
    return _getpass(prompt)


def _in_one_line(output: CommandOutput) -> CommandOutput:
    """What sudo says of a password that it does not take."""
    if not any(_WRONG.search(line) for line in output.stderr_lines):
        return output
    reason = "sudo does not take this password: run this again and type it anew"
    return CommandOutput([OutputLine("stderr", reason)])


def _with_read(make: Callable[..., StringCommand]) -> Callable[..., StringCommand]:
    def made(state: State, host: Host, command: StringCommand, **arguments: Any) -> StringCommand:
        if _password(host, arguments) is None:
            return make(state, host, command, **arguments)
        arguments["_sudo_password"] = _PLACEHOLDER
        script = StringCommand(_READ, make(state, host, command, **arguments))
        # The user's own shell may be one that knows no `read`.
        return StringCommand("sh", "-c", QuoteString(script))

    return made


def _with_input(run: Callable[..., Any]) -> Callable[..., Any]:
    def run_shell_command(self: Any, command: StringCommand, *rest: Any, **arguments: Any) -> Any:
        if arguments.get("_sudo"):
            arguments["_stdin"] = _Input(self.host, dict(arguments))
            done, output = run(self, command, *rest, **arguments)
            return done, output if done else _in_one_line(output)
        return run(self, command, *rest, **arguments)

    return run_shell_command


class _Input:
    """Standard input of a command, with the password before all else.

    pyinfra asks for the lines at each try: before the second it may have asked for a password.
    """

    def __init__(self, host: Host, arguments: dict[str, Any]) -> None:
        self._host = host
        self._arguments = arguments

    def readlines(self) -> list[str]:
        password = _password(self._host, self._arguments)
        return [*([] if password is None else [password]), *self._own()]

    def _own(self) -> list[str]:
        told = self._arguments.get("_stdin")
        if told is None:
            return []
        lines = told.readlines() if hasattr(told, "readlines") else told
        return list(lines) if isinstance(lines, list | tuple) else [lines]
