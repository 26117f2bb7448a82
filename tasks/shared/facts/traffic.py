"""What a host's Prometheus says about the time that is asked for: hostkit traffic."""

import json

from pydantic import BaseModel, ConfigDict, Field
from pyinfra.api import FactBase, StringCommand

from tasks.shared.facts import answers
from tasks.shared.traffic.periods import Interval


class Counted(BaseModel):
    """By how much a counter of the server rose in an interval."""

    model_config = ConfigDict(frozen=True)

    name: str
    labels: dict[str, str] = {}
    value: float


class Gauge(BaseModel):
    """The figures of a gauge in an interval; `count` is the number of samples."""

    model_config = ConfigDict(frozen=True)

    min: float
    avg: float
    max: float
    last: float
    count: float


class Stretch(BaseModel):
    """One interval: how much of it was watched, and what was counted in it."""

    model_config = ConfigDict(frozen=True)

    start: float = Field(alias="from")
    until: float
    first_sample: float | None = None
    watched_s: float = 0.0
    up_s: float = 0.0
    starts: int = 0
    counted: list[Counted] = []
    gauges: dict[str, Gauge] = {}


class Traffic(BaseModel):
    """What there is about the time asked for; `problem` says why there is nothing."""

    model_config = ConfigDict(frozen=True)

    problem: str = ""
    intervals: list[Stretch] = []
    courses: dict[str, list[tuple[float, float]]] = {}
    """A figure's course over the whole time: (Unix time, value), a point each step."""


class TrafficFact(FactBase[Traffic]):
    """The traffic of some intervals, with a point of each course every `step` seconds."""

    def command(self, port: int, intervals: list[Interval], step: int) -> StringCommand:
        return answers.question("traffic", str(port), json.dumps(intervals), str(step))

    @staticmethod
    def default() -> Traffic:
        return Traffic(problem=answers.NOT_INSTALLED)

    def process(self, output: list[str]) -> Traffic:
        answer = answers.read(output)
        found, problem = answer.json()
        if answer.status is None:
            return self.default()
        return Traffic(problem=problem) if problem else Traffic.model_validate(found)
