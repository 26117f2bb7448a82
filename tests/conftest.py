"""Marks what needs a rehearsal host, runs it last, and says what may run side by side.

pytest-xdist keeps the tests of one group on one worker, in their order: those on the host with the
real engine, those on all other hosts, and each file of the unit tests.
"""

from pathlib import Path

import pytest

REHEARSAL = Path(__file__).parent / "rehearsal"
REAL_ENGINE = {"fresh_host", "deployed"}


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(REHEARSAL):
            item.add_marker(pytest.mark.rehearsal)
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=lambda item: item.get_closest_marker("rehearsal") is not None)


def _group(item: pytest.Item) -> str:
    if not item.path.is_relative_to(REHEARSAL):
        return item.path.stem
    fixtures = set(getattr(item, "fixturenames", ()))
    return "real-engine" if fixtures & REAL_ENGINE else "other-hosts"
