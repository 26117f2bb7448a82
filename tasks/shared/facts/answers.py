"""What hostkit answered to a question, however damaged it is: a fact that fails drops its host."""

import contextlib
import json
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pyinfra.api import QuoteString, StringCommand

HOSTKIT = "/opt/vllm/hostkit"
NOT_INSTALLED = "hostkit is not installed yet"
NO_ANSWER = "hostkit on this host cannot be asked"

_REFUSAL = "hostkit: "
# argparse's words: this hostkit is another one, which does not know the question.
_ERROR = "hostkit: error: "
_RAISED = ("Traceback (most recent call last)", '  File "')
_STATUS = "exit status "
_MAIN = f"{HOSTKIT}/__main__.py"


def hostkit(*arguments: str) -> StringCommand:
    """A hostkit command line. -B: not even a bytecode file is left by a question."""
    return StringCommand("/usr/bin/python3 -IB", HOSTKIT, *(QuoteString(a) for a in arguments))


def question(*arguments: str) -> StringCommand:
    """A shell command that asks hostkit and ends with 0 always; `read` understands its output."""
    return StringCommand(
        f"if test -e {_MAIN} && test -x /usr/bin/python3; then",
        # One that a power cut left empty says yes to everything, without a word.
        f"if grep -q ^sys.exit {_MAIN}; then",
        hostkit(*arguments),
        f"2>&1; else echo '{_ERROR}__main__.py is cut short'; (exit 2); fi;",
        f"status=$?; echo; echo {_STATUS}$status; fi",
    )


Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Answer:
    """What was said, blank lines left out. `status` is None where no hostkit is installed.

    A check that finds something, or hostkit itself, ends with 1 and a line for each problem.
    """

    lines: tuple[str, ...]
    status: int | None

    @property
    def problems(self) -> list[str]:
        """What was found wrong, a line each; a single one when hostkit could not be asked."""
        if self.status is None:
            return [NOT_INSTALLED]
        if self.status == 0:
            return []
        raised = any(line.startswith(_RAISED) for line in self.lines)
        if self.status != 1 or raised or not self.lines:
            last = self.lines[-1] if self.lines else f"{_STATUS}{self.status}"
            return [no_answer(last.removeprefix(_ERROR))]
        return [line.removeprefix(_REFUSAL) for line in self.lines]

    def json(self) -> tuple[dict[str, Any], str | None]:
        """The JSON object that was answered, and why there is none."""
        if self.status is None:
            return {}, None
        if self.status:
            return {}, self.problems[-1]
        for line in self.lines:
            if line.startswith("{"):
                with contextlib.suppress(ValueError):
                    found: dict[str, Any] = json.loads(line)
                    return found, None
        return {}, no_answer("it says nothing")

    def fill(self, kind: type[Model]) -> Model:
        """The object as such a model, whose field `unknown` says why there is none that fits."""
        found, unknown = self.json()
        try:
            return kind.model_validate(found | {"unknown": unknown})
        except ValidationError as error:
            field = ".".join(map(str, error.errors()[0]["loc"]))
            return kind.model_validate({"unknown": no_answer(f"its answer does not fit: {field}")})


def no_answer(why: str) -> str:
    """The line for a hostkit that is damaged, or another one than ours."""
    return f"{NO_ANSWER} ({why.strip()[:160]}): deploy.py installs it again"


def read(output: list[str]) -> Answer:
    """Understand the output of a `question`."""
    lines = tuple(line.rstrip() for line in output if line.strip())
    if not lines or not lines[-1].startswith(_STATUS):
        return Answer((), None)
    return Answer(lines[:-1], int(lines[-1].removeprefix(_STATUS)))
