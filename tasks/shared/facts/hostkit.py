"""What hostkit, the program on the host, says about it."""

from pydantic import BaseModel, ConfigDict, Field
from pyinfra.api import FactBase, StringCommand

from tasks.shared.facts import answers
from tasks.shared.facts.answers import HOSTKIT, NOT_INSTALLED
from tasks.shared.facts.yesorno import YesOrNo


class GenerationState(BaseModel):
    """A generation that lies on the host."""

    model_config = ConfigDict(frozen=True)

    digest: str
    verified: bool = False
    ssd_tier: bool = False
    reached_at: str = ""


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


class GuardNote(BaseModel):
    """What the memory guard has ended beside the server, last; `at` in seconds since 1970."""

    model_config = ConfigDict(frozen=True)

    at: float
    reason: str
    count: int


class HostState(BaseModel):
    """The service and its generations. The defaults are those of a host that has nothing yet.

    `unknown` says why hostkit could not tell; all else means nothing then.
    """

    model_config = ConfigDict(frozen=True)

    unknown: str | None = None

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
    guard: GuardNote | None = None
    generations: dict[int, GenerationState] = {}

    @property
    def serving(self) -> int | None:
        """The generation that runs; where none is known to, the one that a start would be of."""
        return self.current if self.running is None else self.running

    @property
    def lost_current(self) -> bool:
        """Does a generation serve that the next start would not find?"""
        return self.current is None and self.running in self.generations

    @property
    def torn(self) -> int | None:
        """The generation that serves, when its note is gone or damaged."""
        return None if self.running in self.generations else self.running

    @property
    def in_use(self) -> dict[int, GenerationState]:
        """The generations that serve, or that a rollback may bring back."""
        return {
            number: each
            for number, each in self.generations.items()
            if each.verified or number in (self.running, self.current)
        }

    @property
    def writes_to_ssd(self) -> list[int]:
        """Those of them that have an SSD tier."""
        return [number for number, each in self.in_use.items() if each.ssd_tier]

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
        return answers.question("state")

    @staticmethod
    def default() -> HostState:
        return HostState()

    def process(self, output: list[str]) -> HostState:
        return answers.read(output).fill(HostState)


class Outlook(BaseModel):
    """What an upgrade would cost: the SSD tier's size now, how long the last good start took."""

    model_config = ConfigDict(frozen=True)

    tier_bytes: int = 0
    ready_s: float | None = None


class OutlookFact(FactBase[Outlook]):
    """The figures that a plan shows besides what changes; nothing where hostkit cannot tell."""

    def command(self) -> StringCommand:
        return answers.question("outlook")

    @staticmethod
    def default() -> Outlook:
        return Outlook()

    def process(self, output: list[str]) -> Outlook:
        return Outlook.model_validate(answers.read(output).json()[0])


class HostkitProblems(FactBase[list[str]]):
    """What a hostkit check that fails with a line per problem says; empty when all is well.

    One line, NOT_INSTALLED or beginning with NO_ANSWER, where there is nothing that could be asked.
    """

    def command(self, question: list[str]) -> StringCommand:
        return answers.question(*question)

    def process(self, output: list[str]) -> list[str]:
        return answers.read(output).problems

    @staticmethod
    def default() -> list[str]:
        return [NOT_INSTALLED]


class HostkitInstalled(YesOrNo):
    """Is there a hostkit to ask?"""

    def command(self) -> str:
        return f"test -e {HOSTKIT}/__main__.py && echo yes || echo no"


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
        return answers.question("job", "status", job, "--after", str(after))

    @staticmethod
    def default() -> JobStatus:
        return JobStatus()

    def process(self, output: list[str]) -> JobStatus:
        found, unknown = answers.read(output).json()
        if unknown:
            return JobStatus(state="unknown", error=unknown)
        return JobStatus.model_validate(found)
