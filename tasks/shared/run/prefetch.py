"""Ask a host for its facts together, and not by one remote command each.

For a plan, and before the first operation of a run on a host, every operation is worked out up to
its first command, as pyinfra does it one by one for a plan. Where a fact is wanted on the way, its
question is noted and the operation left; all questions are asked in one remote command, and the
operations worked out again with the answers, until none of them has another question.

The plan, or the operations that then run, find the answers. From the first command on that an
operation has for the host, and after GOOD_FOR_S, each fact is asked by itself again: nothing is
decided by what may have changed. So is a question that could not be answered among the others: it
fails as it would have without this.
"""

import itertools
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from paramiko import SSHException
from pyinfra import logger, state
from pyinfra.api import Host, State, StringCommand
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.exceptions import OperationError
from pyinfra.api.state import BaseStateCallback, StateStage
from pyinfra.connectors.util import CommandOutput, OutputLine
from pyinfra.context import ctx_host

from tasks.shared.run.refusals import refusal

GOOD_FOR_S = 30.0
"""How long an answer is taken, in seconds: a host may have to wait for another one's turn."""

ROUNDS = 6
"""What an operation still wants to know after so many answers, it asks by itself."""

Commands = Callable[[], Iterator[PyinfraCommand]]
"""What works an operation out, command by command."""


@dataclass(frozen=True)
class Question:
    """A fact's shell command, and how it is run: as whom, in which environment and so on."""

    text: str
    how: str
    command: StringCommand = field(compare=False)
    arguments: Mapping[str, Any] = field(compare=False)

    @classmethod
    def of(cls, command: str | StringCommand, arguments: Mapping[str, Any]) -> "Question":
        """pyinfra gives a command as text or in pieces, of which some are not to be shown."""
        command = StringCommand(command) if isinstance(command, str) else command
        how = repr(sorted(arguments.items()))
        return cls(command.get_raw_value(), how, command, arguments)


def install() -> None:
    """Let this run prefetch the facts of its plan, and those of its operations."""
    from pyinfra_cli import cli  # changes the standard library as it is imported

    init = state.init

    def init_and_listen(*args: Any, **kwargs: Any) -> None:
        init(*args, **kwargs)
        state.add_callback_handler(Listener())  # type: ignore[no-untyped-call]

    # pyinfra takes nobody who listens before it knows its hosts, ...
    state.init = init_and_listen  # type: ignore[method-assign]
    # ... and has no moment of its own for a plan: it works an operation out when a file names it.
    cli.load_deploy_file = load_deploy_file


def is_looking_ahead() -> bool:
    """Is an operation only asked for its questions? Nothing that it says is seen then."""
    return logger.disabled


class Listener(BaseStateCallback):
    """What pyinfra tells of the run."""

    @staticmethod
    def host_connect(state: State, host: Host) -> None:
        """Put the answers before the host."""
        _answers[host] = _Answers(host)

    @staticmethod
    def operation_host_start(state: State, host: Host, op_hash: str) -> None:
        """Prefetch what all operations of this host ask, before the first of them."""
        if host not in _begun:
            _begun.add(host)
            if state.check_for_changes:
                # Somebody has read a plan meanwhile.
                _answers[host].forget()
            _answers[host].prefetch(_operations(state, host))
            for operation in state.ops[host].values():
                commands = operation.command_generator
                operation.command_generator = _answers[host].until_a_command(commands)


def load_deploy_file(state: State, filename: str) -> None:
    """In place of pyinfra's: work the operations out together, when all of them are known."""
    from pyinfra_cli import util

    def load() -> None:
        util.exec_file(filename)
        if checks:
            host = ctx_host.get()  # type: ignore[no-untyped-call]
            _answers[host].prefetch(_operations(state, host))
            for operation in state.ops[host].values():
                _ = operation.operation_meta.will_change

    state.current_deploy_filename = filename
    checks, state.check_for_changes = state.check_for_changes, False
    try:
        util._parallel_load_hosts(state, load, filename)
    finally:
        state.check_for_changes = checks


_answers: dict[Host, "_Answers"] = {}
_begun: set[Host] = set()


def _operations(state: State, host: Host) -> list[Commands]:
    """What works out each operation of the host that has not been."""
    return [
        each.command_generator
        for each in state.ops[host].values()
        if state.is_executing or each.operation_meta._maybe_is_change is None
    ]


class _Unanswered(BaseException):
    """Ends the working out of an operation; none takes it for an error of its own."""

    def __init__(self, question: Question) -> None:
        self.question = question


class _Answers:
    """The answers of one host, put before its `run_shell_command`."""

    def __init__(self, host: Host) -> None:
        self._ask = host.run_shell_command
        self._known: dict[Question, tuple[float, list[str]]] = {}
        host.run_shell_command = self._answer  # type: ignore[method-assign]

    def forget(self) -> None:
        """Something has changed, or may have."""
        self._known.clear()

    def prefetch(self, operations: list[Commands]) -> None:
        """Ask everything that these want to know before their first commands."""
        for _ in range(ROUNDS):
            wanted = [(each, self._question_of(each)) for each in operations]
            questions = dict.fromkeys(question for _, question in wanted if question)
            by_how = itertools.groupby(sorted(questions, key=lambda q: q.how), lambda q: q.how)
            for _, asked in by_how:
                self._ask_together(list(asked))
            operations = [each for each, question in wanted if question in self._known]
            if not operations:
                break

    def until_a_command(self, operation: Commands) -> Commands:
        """The same operation, before whose first command all answers are forgotten."""

        def commands() -> Iterator[PyinfraCommand]:
            try:
                for command in operation():
                    self.forget()
                    yield command
            except OperationError as error:
                # pyinfra would show its traceback.
                yield refusal(f"{error}: move it away, or name another path in the settings")

        return commands

    def _question_of(self, operation: Commands) -> Question | None:
        """What an operation wants to know next; None when it comes to a command, or to its end."""
        # Nothing in here waits for anything, so no other host's operations see these.
        before = state.is_executing, logger.disabled
        state.is_executing, logger.disabled = False, True
        try:
            for _ in operation():
                return None
        except _Unanswered as stop:
            return stop.question
        except Exception:
            # It says so itself when its turn comes.
            return None
        finally:
            state.is_executing, logger.disabled = before
        return None

    def _ask_together(self, questions: list[Question]) -> None:
        mark = secrets.token_hex(16)
        try:
            _, output = self._ask(
                together([each.command for each in questions], mark),
                print_output=state.print_fact_output,
                print_input=state.print_fact_input,
                **questions[0].arguments,
            )
        except (OSError, SSHException):
            return
        now = time.monotonic()
        for question, lines in zip(questions, apart(output.stdout_lines, mark), strict=False):
            if lines is not None:
                self._known[question] = now, lines

    def _answer(
        self,
        command: str | StringCommand,
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Any,
    ) -> tuple[bool, CommandOutput]:
        """In place of the host's own: the answer that is known, or else a new one."""
        question = Question.of(command, arguments)
        asked_at, lines = self._known.get(question, (-GOOD_FOR_S, []))
        if time.monotonic() - asked_at < GOOD_FOR_S:
            return True, CommandOutput([OutputLine("stdout", line) for line in lines])
        if is_looking_ahead():
            raise _Unanswered(question)
        done, output = self._ask(
            command, print_output=print_output, print_input=print_input, **arguments
        )
        # Before the operations run nothing but facts is asked.
        if done and state.current_stage == StateStage.Prepare:
            self._known[question] = time.monotonic(), output.stdout_lines
        return done, output


def together(commands: list[StringCommand], mark: str) -> StringCommand:
    """One command that runs all of them and ends the output of each with a line of `mark`."""
    end = f"\n)\nprintf '\\n%s %d\\n' {mark} $?\n"
    bits = [bit for command in commands for bit in ("(\n", command, end)]
    return StringCommand(*bits, _separator="")


def apart(lines: list[str], mark: str) -> list[list[str] | None]:
    """The lines that each of the commands printed; None for one that failed."""
    found: list[list[str] | None] = []
    own: list[str] = []
    for line in lines:
        if not line.startswith(f"{mark} "):
            own.append(line)
            continue
        # The line feed before the mark makes a line where the output ended with one, or is empty.
        printed = own[:-1] if own and not own[-1] else own
        found.append(printed if line == f"{mark} 0" else None)
        own = []
    return found
