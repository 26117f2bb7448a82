"""FlashInfer's modules are built into the release's cache; FlashInfer and nvcc are imitations."""

import sys

import pytest

from hostkit.host import paths
from hostkit.release import compilers, jit

FLASHINFER = """
import os, pathlib
class Spec:
    path = pathlib.Path(os.environ["FLASHINFER_WORKSPACE_BASE"], "sampling.so")
    is_compiled = property(lambda self: self.path.exists())
    def build(self, verbose):
        if os.environ["FLASHINFER_CUDA_ARCH_LIST"] == "0.0":
            raise RuntimeError("Ninja build failed")
        self.path.write_text(os.environ["MAX_JOBS"])
def gen_sampling_module():
    return Spec()
"""


@pytest.fixture
def release(tmp_path, monkeypatch):
    """A release with an imitation of FlashInfer, and a folder with something called nvcc."""
    venv, cache = tmp_path / "venv", tmp_path / "cache"
    package = tmp_path / "packages/flashinfer/jit"
    package.mkdir(parents=True)
    (package / "sampling.py").write_text(FLASHINFER)
    (venv / "bin").mkdir(parents=True)
    python = venv / "bin/python"
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'packages')!r}); "
    python.write_text(
        f'#!/bin/sh\nscript=$3; shift 3\nexec {sys.executable} -I -c "{code}$script" "$@"\n'
    )
    python.chmod(0o755)
    cache.mkdir()
    nvcc = tmp_path / "cuda/bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.touch()
    monkeypatch.setattr(compilers, "CUDA_HOME", tmp_path / "cuda")
    monkeypatch.setattr(paths, "SERVICE_USER", "nobody-of-that-name")
    return venv, cache


def build(release, arch_list="12.0"):
    venv, cache = release
    return jit.build(venv, cache, arch_list, 1)


def test_a_module_is_built_into_the_releases_own_cache(release):
    assert set(build(release).values()) == {"built"}
    assert (release[1] / "sampling.so").read_text() == "1"


def test_one_that_is_there_is_not_built_again(release):
    (release[1] / "sampling.so").write_text("there")
    assert set(build(release).values()) == {"built"}
    assert (release[1] / "sampling.so").read_text() == "there"


def test_a_module_that_cannot_be_built_is_named_and_is_no_failure(release):
    (said,) = build(release, "0.0").values()
    assert said == "not built: RuntimeError: Ninja build failed"


def test_without_the_toolkit_nothing_is_tried(release, monkeypatch, tmp_path):
    monkeypatch.setattr(compilers, "CUDA_HOME", tmp_path / "nowhere")
    (said,) = build(release).values()
    assert said.startswith("not built: no nvcc in")
