"""Marks every test of this folder as gpu, and prints the table of what was measured."""

from pathlib import Path

import pytest

from tests.gpu import model, profile, record


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.gpu)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if text := record.table():
        terminalreporter.write_sep("=", f"measured on {record.gpu_names()}")
        terminalreporter.write_line(text)


def _need_gpus(count: int) -> None:
    found = len(profile.gpus())
    if found < count:
        pytest.fail(f"{found} GPUs are visible here, this test needs {count}")


@pytest.fixture(scope="session")
def rank_model() -> Path:
    """The article's model as one of its two ranks computes it, for one GPU."""
    _need_gpus(1)
    return model.write(profile.SCRATCH / "models/rank", model.RANK)


@pytest.fixture(scope="session")
def full_model() -> Path:
    """The article's whole model, for two GPUs."""
    _need_gpus(2)
    return model.write(profile.SCRATCH / "models/full", model.FULL)
