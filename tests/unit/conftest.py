"""Settings to test with: group_data/all.py as delivered, and the rehearsal's changes to it."""

import runpy
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tasks.shared.settings import Settings
from tests.unit.standin_host import Host


def values_of(path: str) -> dict[str, Any]:
    return {k: v for k, v in runpy.run_path(path).items() if not k.startswith("__")}


@pytest.fixture
def production() -> dict[str, Any]:
    return values_of("group_data/all.py")


@pytest.fixture
def rehearsal(production):
    changes: dict[str, Any] = values_of("tests/rehearsal/group_data/all.py")
    return production | changes | {"model": "host:/srv/model"}


@pytest.fixture
def make(production):
    """Production settings with some values changed."""
    return lambda **changes: Settings.model_validate(production | changes)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """One release that tests may look at and must leave as it is."""
    host = Host(tmp_path_factory.mktemp("built"))
    done = host.build()
    assert done.returncode == 0, done.stderr
    return host


@pytest.fixture(scope="module")
def as_built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Host, Path]:
    """A host with a built release, and a copy of its folder."""
    host = Host(tmp_path_factory.mktemp("own"))
    done = host.build()
    assert done.returncode == 0, done.stderr
    copy = host.folder.with_name(f"{host.folder.name}-as-built")
    return host, shutil.copytree(host.folder, copy, symlinks=True)


@pytest.fixture
def own(as_built: tuple[Host, Path]) -> Host:
    """A built release to damage, in the place in which it was built."""
    host, copy = as_built
    shutil.rmtree(host.folder)
    shutil.copytree(copy, host.folder, symlinks=True)
    return deepcopy(host)
