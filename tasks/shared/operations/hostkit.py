"""hostkit's commands, as operations run them."""

from typing import Any

from pyinfra.api import Host, State, StringCommand
from pyinfra.connectors.util import CommandOutput, OutputLine

from tasks.shared.facts import answers


class Hostkit(StringCommand):
    """One command of hostkit; `lines` are what it said, once it has been run.

    It fails with hostkit's own lines; where hostkit is damaged, in place of a traceback, with the
    one that says what mends it. `told` is one line for its standard input.
    """

    def __init__(self, *arguments: str, told: str | None = None) -> None:
        question = answers.question(*arguments)
        if told is None:
            super().__init__(question)
        else:
            super().__init__(question, _stdin=[told])
        self.lines: tuple[str, ...] = ()

    def execute(
        self, state: State, host: Host, connector_arguments: Any
    ) -> tuple[bool, CommandOutput]:
        done, output = super().execute(state, host, connector_arguments)
        answer = answers.read(output.output_lines)
        if not done:
            # Not even the shell could be run: sudo wants a password, for example.
            return False, output
        self.lines = answer.lines
        return not answer.problems, CommandOutput(
            [OutputLine("stderr", line) for line in answer.problems or answer.lines]
        )
