"""The source route: real git, uv and wheel on a stand-in for vLLM's sources and its setuptools."""

import os
import shutil
import signal
import time

import pytest

from hostkit.release import compilers, source
from tests.imitation_network import NAME, network
from tests.unit import standin_source as sources
from tests.unit.standin_host import INSTALLED, refused
from tests.unit.standin_source import PATCHED_KERNEL, set_fault, tree


@pytest.fixture
def own_source(host):
    host.commit = sources.give_source(host)
    return host


def test_the_source_route_compiles_patches_and_installs(own_source):
    done = own_source.build()
    assert done.returncode == 0, done.stderr
    assert (own_source.site() / "vllm/kernel.txt").read_text() == PATCHED_KERNEL
    manifest = own_source.manifest()
    assert (manifest["route"], manifest["vllm"]) == ("source", INSTALLED)
    assert manifest["source"]["commit"] == own_source.commit
    assert manifest["flags"]["MAX_JOBS"] == "1"
    assert manifest["flags"]["NVCC_THREADS"] == "1"
    assert manifest["compilers"]["gcc"].startswith("gcc")
    assert manifest["patches"][0]["state"] == "applied"
    assert "step 1/3" in done.stdout
    assert "GiB of memory left" in done.stdout
    assert not tree(own_source).exists()

    # A damaged release of the same name is installed again, and nothing is compiled for it.
    shutil.rmtree(own_source.release)
    shutil.rmtree(own_source.folder / "github")
    again = own_source.build()
    assert again.returncode == 0, again.stderr
    assert "compile: not needed" in again.stdout
    assert own_source.manifest()["source"] == manifest["source"]


def test_a_build_that_was_killed_goes_on_where_it_was(own_source):
    set_fault(own_source, "hang")
    build = own_source.start()
    sleeper = tree(own_source) / "tree/sleeper"
    while not (sleeper.is_file() and sleeper.read_text()):
        assert build.poll() is None
        time.sleep(0.05)
    build.kill()
    build.wait()
    os.kill(int(sleeper.read_text()), signal.SIGKILL)
    (tree(own_source) / "fault").unlink()
    # A tree that is there already needs nothing that was downloaded for it.
    shutil.rmtree(own_source.root / "opt/vllm/cache/downloads/git")
    done = own_source.build()
    assert done.returncode == 0, done.stderr
    assert own_source.manifest()["source"]["commit"] == own_source.commit
    assert "goes on where an earlier build was stopped" in done.stdout
    assert "step 1/2" in done.stdout


def test_a_compiler_error_is_named_and_leaves_nothing(own_source):
    set_fault(own_source, "error")
    said = refused(own_source.build())
    assert said == "compile: csrc/kernel.cpp:7:3: error: expected ';' before '}' token"
    assert own_source.leftovers() == []
    assert not tree(own_source).exists()


def test_a_patch_that_does_not_fit_the_sources_leaves_nothing(own_source):
    patch = own_source.inputs / "patches/0001-a.patch"
    patch.write_text(patch.read_text().replace("int kernel_1;", "int other;"))
    assert "patch 0001-a.patch: FAIL" in refused(own_source.build())
    assert own_source.leftovers() == []
    assert not tree(own_source).exists()


def test_more_jobs_than_fit_are_refused_with_the_arithmetic(own_source):
    own_source.spec["build_jobs"] = 1000
    assert refused(own_source.build()).startswith("build_jobs = 1000 does not fit: (")
    assert own_source.leftovers() == []


def test_a_commit_that_the_repository_lacks_is_refused(own_source):
    own_source.spec["source"] = str(own_source.spec["source"])[:-40] + "0" * 40
    assert refused(own_source.build()).startswith("fetch 000000000000 from ")
    assert own_source.leftovers() == []


def test_a_commit_is_asked_for_through_the_proxy(own_source, tmp_path):
    """The server there has no repository; that it was reached is what counts."""
    own_source.spec["source"] = f"http://{NAME}/vllm@{'0' * 40}"
    told = own_source.root / "etc/vllm/network.env"
    told.parent.mkdir(parents=True)
    with network({}, tmp_path / "network") as found:
        assert refused(own_source.build()).startswith("fetch 000000000000 from ")
        assert found.asked == []
        told.write_text(f"http_proxy={found.proxy}\n")
        assert refused(own_source.build()).startswith("fetch 000000000000 from ")
        assert found.asked == [NAME]


@pytest.mark.parametrize(
    ("line", "elapsed", "told"),
    [
        (
            "[12/431] Building CUDA object x.cu.o",
            24.0,
            "step 12/431, 24 s so far, about 14 min to go",
        ),
        ("[1/1] Linking", 3.0, "step 1/1, 3 s so far, about 0 s to go"),
        ("-- [12/431] of cmake", 24.0, ""),
        ("copying a", 1.0, ""),
    ],
)
def test_ninjas_steps_tell_how_far_a_build_is(line, elapsed, told):
    assert source.step_of(line, elapsed) == told


def test_the_first_error_is_told_not_the_last_line():
    lines = ["x", "a.cpp:1:1: error: no member", "ninja: build stopped: subcommand failed.", "y"]
    assert source.explain(lines, 1) == "a.cpp:1:1: error: no member"
    assert "signal 9" in source.explain(lines, -9)


NVCC = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.48\n"


@pytest.mark.parametrize(
    ("nvcc", "torch", "archs", "gpus", "problem"),
    [
        (NVCC, "13.0", "12.0", ["12.0", "12.0"], None),
        (NVCC, "13.0", "8.6;12.0+PTX", ["8.6", "12.0"], None),
        (NVCC, "13.0", "12.0", [], None),
        (NVCC, "13.0", "8.6", ["12.0", "12.0"], 'set cuda_arch_list = "12.0"'),
        (NVCC, "12.8", "12.0", ["12.0"], "torch of 12.8"),
        (NVCC.replace("13.0,", "12.4,"), "12.4", "12.0", ["12.0"], "12.8 is needed"),
        ("?", "13.0", "12.0", ["12.0"], "names no release"),
    ],
)
def test_the_compilers_must_fit_torch_and_the_gpus(nvcc, torch, archs, gpus, problem):
    found = compilers.judge(nvcc, torch, archs, gpus)
    if problem is None:
        assert found == []
    else:
        assert problem in "; ".join(found)


def test_a_cuda_build_without_the_toolkit_says_so(own_source):
    own_source.spec["target_device"] = "cuda"
    assert "the CUDA toolkit is needed" in refused(own_source.build())
    assert own_source.leftovers() == []
