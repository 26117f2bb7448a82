"""A question that a command answers with one word."""

from pyinfra.api import FactBase


class YesOrNo(FactBase[bool]):
    """Its command prints yes or no; whatever else it says, or nothing, is no."""

    @staticmethod
    def default() -> bool:
        return False

    def process(self, output: list[str]) -> bool:
        return output == ["yes"]
