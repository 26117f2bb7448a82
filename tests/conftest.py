"""Marks what needs the rehearsal host, and runs it last."""

from pathlib import Path

import pytest

REHEARSAL = Path(__file__).parent / "rehearsal"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(REHEARSAL):
            item.add_marker(pytest.mark.rehearsal)
    items.sort(key=lambda item: item.get_closest_marker("rehearsal") is not None)
