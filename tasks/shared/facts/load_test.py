"""What hostkit says before and after a load test."""

from typing import Any

from pyinfra.api import FactBase, StringCommand

from tasks.shared.facts import answers
from tasks.shared.load_tests.hosts import Outlook


class LoadTestOutlook(FactBase[Outlook]):
    """The server that would be measured, or why none can be."""

    def command(self) -> StringCommand:
        return answers.question("load-test", "outlook")

    @staticmethod
    def default() -> Outlook:
        return Outlook(why_not=f"{answers.NOT_INSTALLED}: run deploy.py first")

    def process(self, output: list[str]) -> Outlook:
        answer = answers.read(output)
        found, unknown = answer.json()
        if unknown:
            return Outlook(why_not=unknown)
        return Outlook.model_validate(found) if found else self.default()


class LoadTestResult(FactBase[dict[str, Any]]):
    """The result of the last load test that came to its end; empty when there is none."""

    def command(self) -> StringCommand:
        return answers.question("load-test", "result")

    @staticmethod
    def default() -> dict[str, Any]:
        return {}

    def process(self, output: list[str]) -> dict[str, Any]:
        return answers.read(output).json()[0]
