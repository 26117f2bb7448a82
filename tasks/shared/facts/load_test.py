"""What hostkit says before and after a load test."""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pyinfra.api import FactBase, StringCommand

from tasks.shared.facts import answers


class LoadTestOutlook(BaseModel):
    """The server that would be measured. `why_not` is in words; None when it may be."""

    model_config = ConfigDict(frozen=True)

    why_not: str | None = None
    generation: int = 0
    digest: str = ""
    release: str = ""
    max_model_len: int = 0
    max_num_seqs: int = 1
    kv_tokens: int = 0
    offloads: bool = False
    has_ssd_tier: bool = False
    hardware: list[str] = []
    versions: dict[str, str] = {}


class LoadTestOutlookFact(FactBase[LoadTestOutlook]):
    """The server that would be measured, or why none can be."""

    def command(self) -> StringCommand:
        return answers.question("load-test", "outlook")

    @staticmethod
    def default() -> LoadTestOutlook:
        return LoadTestOutlook(why_not=f"{answers.NOT_INSTALLED}: run deploy.py first")

    def process(self, output: list[str]) -> LoadTestOutlook:
        answer = answers.read(output)
        found, unknown = answer.json()
        if unknown:
            return LoadTestOutlook(why_not=unknown)
        return LoadTestOutlook.model_validate(found) if found else self.default()


class LoadTestResult(FactBase[dict[str, Any]]):
    """The result of the last load test that came to its end; empty when there is none."""

    def command(self) -> StringCommand:
        return answers.question("load-test", "result")

    @staticmethod
    def default() -> dict[str, Any]:
        return {}

    def process(self, output: list[str]) -> dict[str, Any]:
        return answers.read(output).json()[0]
