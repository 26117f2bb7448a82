"""What hostkit, the program on the host, says about it."""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pyinfra.api import FactBase, QuoteString, StringCommand

HOSTKIT = "/opt/vllm/hostkit"


def hostkit(*arguments: str) -> StringCommand:
    """A hostkit command line. -B: not even a bytecode file is left by a question."""
    return StringCommand("/usr/bin/python3 -IB", HOSTKIT, *(QuoteString(a) for a in arguments))


class GenerationState(BaseModel):
    """A generation that lies on the host."""

    model_config = ConfigDict(frozen=True)

    digest: str
    verified: bool = False


class FailureNote(BaseModel):
    """The newest failure that nobody is known to have seen."""

    model_config = ConfigDict(frozen=True)

    number: int
    at: float
    kind: str = Field(alias="class")
    what: str
    remedy: str
    cause: str
    folder: str
    recovered: bool
    count: int
    changed: dict[str, str]


class HostState(BaseModel):
    """The service and its generations. The defaults are those of a host that has nothing yet."""

    model_config = ConfigDict(frozen=True)

    active: str = "inactive"
    sub: str = "dead"
    invocation: str = ""
    unit_in_force: bool = True
    running: int | None = None
    answering: bool = False
    current: int | None = None
    previous: int | None = None
    lock: str | None = None
    highest: int = 0
    failure: FailureNote | None = None
    generations: dict[int, GenerationState] = {}

    def is_verified(self, number: int) -> bool:
        return number in self.generations and self.generations[number].verified

    def find(self, digest: str) -> int | None:
        """The newest generation with this digest."""
        numbers = [n for n, generation in self.generations.items() if generation.digest == digest]
        return max(numbers, default=None)

    def next_number(self) -> int:
        return self.highest + 1


class HostStateFact(FactBase[HostState]):
    """The service and its generations in one round trip."""

    def command(self) -> StringCommand:
        return _if_installed("state")

    @staticmethod
    def default() -> HostState:
        return HostState()

    def process(self, output: list[str]) -> HostState:
        return HostState.model_validate(_json(output))


class LastFailureFact(FactBase[FailureNote | None]):
    """The newest failure; None also where hostkit is damaged, which the deploy is about to mend."""

    def command(self) -> StringCommand:
        return StringCommand(_if_installed("state"), "2>/dev/null || echo '{}'")

    @staticmethod
    def default() -> FailureNote | None:
        return None

    def process(self, output: list[str]) -> FailureNote | None:
        return HostState.model_validate(_json(output)).failure


class Outlook(BaseModel):
    """What an upgrade would cost: the SSD tier's size now, how long the last good start took."""

    model_config = ConfigDict(frozen=True)

    tier_bytes: int = 0
    ready_s: float | None = None


class OutlookFact(FactBase[Outlook]):
    """The figures that a plan shows besides what changes; nothing on a host without hostkit."""

    def command(self) -> StringCommand:
        # A hostkit that was installed before this question existed has no answer.
        return StringCommand(_if_installed("outlook"), "2>/dev/null || echo '{}'")

    @staticmethod
    def default() -> Outlook:
        return Outlook()

    def process(self, output: list[str]) -> Outlook:
        return Outlook.model_validate(_json(output))


NOT_INSTALLED = "hostkit is not installed yet"


class HostkitProblems(FactBase[list[str]]):
    """What a hostkit check that fails with a line per problem says; empty when all is well."""

    def command(self, question: list[str]) -> StringCommand:
        return StringCommand(
            f"if test -e {HOSTKIT}/__main__.py && test -x /usr/bin/python3; then out=$(",
            hostkit(*question),
            f"2>&1) || echo \"$out\"; else echo '{NOT_INSTALLED}'; fi",
        )

    def process(self, output: list[str]) -> list[str]:
        return [line.removeprefix("hostkit: ") for line in output if line.strip()]

    @staticmethod
    def default() -> list[str]:
        return []


class HostkitInstalled(FactBase[bool]):
    """Is there a hostkit to ask?"""

    def command(self) -> str:
        return f"test -e {HOSTKIT}/__main__.py && echo yes || echo no"

    @staticmethod
    def default() -> bool:
        return False

    def process(self, output: list[str]) -> bool:
        return output == ["yes"]


class JobStatus(BaseModel):
    """A long piece of work on the host, run by systemd apart from this connection."""

    model_config = ConfigDict(frozen=True)

    state: str = "absent"
    progress: str = ""
    lines: list[tuple[float, str]] = []
    elapsed_s: float = 0
    error: str = ""


class JobStatusFact(FactBase[JobStatus]):
    """How far a job has come, and what it said after its first `after` lines."""

    def command(self, job: str, after: int = 0) -> StringCommand:
        return _if_installed("job", "status", job, "--after", str(after))

    @staticmethod
    def default() -> JobStatus:
        return JobStatus()

    def process(self, output: list[str]) -> JobStatus:
        return JobStatus.model_validate(_json(output))


def _if_installed(*arguments: str) -> StringCommand:
    guard = f"! test -e {HOSTKIT}/__main__.py || ! test -x /usr/bin/python3 ||"
    return StringCommand(guard, hostkit(*arguments))


def _json(output: list[str]) -> dict[str, Any]:
    found = json.loads(output[-1])
    return found if isinstance(found, dict) else {}
