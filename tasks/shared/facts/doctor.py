"""What hostkit's doctor says about a host."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pyinfra.api import FactBase, StringCommand

from tasks.shared.facts import answers
from tasks.shared.facts.hostkit import HostState


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class UnitReport(_Part):
    """A unit as systemd has it, in systemd's own words, and the sha256 of its file below /etc."""

    active: str = ""
    enabled: str = ""
    needs_reload: str = ""
    drop_ins: str = ""
    result: str = ""
    sha256: str = ""


class FileReport(_Part):
    """A file of ours; the sha256 of a secret is empty."""

    owner: str
    mode: str
    sha256: str


class ProcessReport(_Part):
    """The server's main process. `environment`: name, found, meant, where they differ."""

    pid: int
    command: str
    environment: list[tuple[str, str | None, str | None]]


class ReleaseReport(_Part):
    """A release against its manifest; paths are below site-packages.

    `altered` are not as their RECORD says; of what the server has loaded, which `loaded` counts,
    `gone` are not on the disk any more, and `unlisted` in no RECORD.
    """

    name: str
    damage: str | None
    altered: list[str]
    gone: list[str]
    unlisted: list[str]
    loaded: int
    patches: dict[str, str]
    installed_version: str


class ModelReport(_Part):
    """The model's folder; `same` as at the deploy."""

    folder: str
    problems: list[str]
    same: bool


class StartsReport(_Part):
    """When the service was started since somebody asked for it, and what the limit is."""

    ago_s: list[float]
    burst: int | None
    window_s: float | None
    slowest_s: float
    unreachable: str


class LogReport(_Part):
    """What the log of the start that runs shows; not `complete` when its beginning is lost."""

    complete: bool
    unproven: list[str] = []
    start: str = ""
    warnings: list[str] = []
    problems: list[str] = []


class KeptFailure(_Part):
    """A series of failures, kept on the host."""

    number: int
    at: float
    kind: str = Field(alias="class")
    what: str
    remedy: str
    cause: str
    count: int


class TierReport(_Part):
    """The figures of the last prune, and the host's clock, in Unix seconds."""

    now: float
    figures: dict[str, float]


class Names(_Part):
    """What a host and its people are called."""

    hosts: list[str] = []
    users: list[str] = []


class Report(_Part):
    """All of it. None is what could not be told, or what a server that does not run cannot say.

    `unknown` says why hostkit could not tell; all else means nothing then.
    """

    unknown: str | None = None
    generation: int | None = None
    errors: dict[str, str] = {}
    state: HostState | None = None
    units: dict[str, UnitReport] = {}
    files: dict[str, FileReport] | None = None
    hostkit: str | None = None
    up_s: float | None = None
    kept: list[KeptFailure] = []
    left_lock: str = ""
    hang_told: bool = False
    good: dict[str, Any] = {}
    versions: dict[str, str] = {}
    shm: list[str] | None = None
    orphans: list[str] | None = None
    tier: TierReport | None = None
    names: Names = Names()
    note: dict[str, Any] = {}
    edited: list[str] | None = None
    release: ReleaseReport | None = None
    model: ModelReport | None = None
    starts: StartsReport | None = None
    process: ProcessReport | None = None
    version: str | None = None
    metrics: list[str] | None = None
    log: LogReport | None = None


class DoctorFact(FactBase[Report]):
    """Everything at once, in one round trip."""

    def command(self) -> StringCommand:
        return answers.question("doctor")

    @staticmethod
    def default() -> Report:
        return Report(unknown=answers.NOT_INSTALLED)

    def process(self, output: list[str]) -> Report:
        answer = answers.read(output)
        return self.default() if answer.status is None else answer.fill(Report)


class ArchiveFact(FactBase[list[str]]):
    """hostkit's archive of texts, as lines of base64; none where it cannot be asked."""

    def command(self) -> StringCommand:
        return StringCommand(answers.hostkit("doctor", "--archive"), "2>/dev/null | base64")

    @staticmethod
    def default() -> list[str]:
        return []

    def process(self, output: list[str]) -> list[str]:
        return output
