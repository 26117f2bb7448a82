"""Marks what needs a rehearsal host, runs it last, and says what may run side by side."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

REHEARSAL = Path(__file__).parent / "rehearsal"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(REHEARSAL):
            item.add_marker(pytest.mark.rehearsal)
    items.sort(key=lambda item: item.get_closest_marker("rehearsal") is not None)


class ByHost(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the tests of one host on one worker, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid.partition("::")[0])


@cache
def group(file: str) -> str:
    """The host with the real engine, all other hosts, or a file of the unit tests.

    A file asks for the real engine by the fixtures that it names.
    """
    path = Path(__file__).parents[1] / file
    if not path.is_relative_to(REHEARSAL):
        return file
    real = re.search(r"\b(fresh_host|deployed)\b", path.read_text("utf-8"))
    return "the real engine" if real else "other hosts"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByHost:
    return ByHost(config, log)
