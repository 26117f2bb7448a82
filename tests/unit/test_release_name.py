"""A release's name: the same wherever it is asked for, and another for any other input."""

import json
import os
import subprocess
import sys

import pytest

from tasks.shared.release import packages, patches, releases
from tasks.shared.settings import Settings

WHEEL = f"some-quant==1.2.0 --hash=sha256:{'a' * 64}"
SOURCE = {"build_route": "source"}

# Settings that change what is built, each with what they are compared with.
DECISIVE = [
    ({}, {"accelerator": "cpu"}),
    ({}, {"vllm_version": "0.30.0", "mtp_tokens": 0, "turboquant_decode": "stock"}),
    ({}, SOURCE),
    ({}, {"plugins": [WHEEL]}),
    ({"plugins": [WHEEL]}, {"plugins": [WHEEL.replace("a" * 64, "b" * 64)]}),
    (SOURCE, SOURCE | {"vllm_source": f"https://git.lan/vllm@{'a' * 40}"}),
    (SOURCE, SOURCE | {"cuda_arch_list": "8.6"}),
]
# And those that do not: where it is built, how carefully, what the server is told.
ELSEWHERE = {
    "build_jobs": 2,
    "memory_floor_mib": 512,
    "find_links": ["/wheels"],
    "extra_index_urls": ["https://mirror.lan/simple"],
    "proxy": "http://proxy.lan:3128",
    "max_num_seqs": 8,
    "port": 9000,
    "gpus": 1,
}


@pytest.fixture
def name(production):
    return lambda **changes: releases.wanted(Settings.model_validate(production | changes)).name


@pytest.mark.parametrize(("before", "after"), DECISIVE)
def test_a_setting_that_changes_what_is_built_changes_the_name(name, before, after):
    assert name(**before) != name(**after)


@pytest.mark.parametrize("key", ELSEWHERE)
def test_a_setting_that_does_not_leaves_it(name, key):
    assert name(**{key: ELSEWHERE[key]}) == name()
    assert name(**SOURCE, **{key: ELSEWHERE[key]}) == name(**SOURCE)


def test_compute_capabilities_count_only_where_something_is_compiled(name):
    assert name(cuda_arch_list="8.6") == name()


@pytest.mark.parametrize("told", [{}, SOURCE, {"accelerator": "cpu"}], ids=str)
def test_each_byte_of_each_input_is_in_the_name(make, monkeypatch, told):
    settings = make(**told)
    before = releases.wanted(settings)
    changed = set()
    for input_name in before.inputs.keys() - {"spec.json"}:
        with monkeypatch.context() as patch:
            _change(patch, input_name)
            other = releases.wanted(settings)
        assert other.name != before.name, input_name
        changed |= {key for key in before.inputs if other.inputs[key] != before.inputs[key]}
    assert changed == before.inputs.keys()


def _change(patch, name):
    """Give one input of a release one more byte."""
    read, texts, own = releases._read, patches.texts, packages.inputs
    patch.setattr(releases, "_read", lambda file: _other(file, read(file), name))
    patch.setattr(patches, "texts", lambda settings: _others("patches/", texts(settings), name))
    patch.setattr(packages, "inputs", lambda: _others("", own(), name))


def _other(file, text, changed):
    """A lock's text, with one more byte when it is the input that is to change."""
    ends = {"lock.txt": ("-cuda.txt", "-cpu.txt"), "wheel.txt": ("wheel.txt",)}
    return text + "#" * file.endswith(ends.get(changed, (changed,)))


def _others(prefix, texts, changed):
    return {key: text + "#" * (prefix + key == changed) for key, text in texts.items()}


_ASK = """
import json, runpy, sys
from tasks.shared.release import releases
from tasks.shared.settings import Settings
values = {k: v for k, v in runpy.run_path("group_data/all.py").items() if k[0] != "_"}
found = releases.wanted(Settings.model_validate(values))
print(json.dumps([found.name, found.inputs]))
"""


def test_another_machine_gives_the_same_name_and_the_same_inputs(make):
    """Another process with another user, order of sets, language and time zone stands for it."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": ".:files/hostkit", "PYTHONHASHSEED": "7"}
    env |= {"USER": "somebody", "HOME": "/nowhere", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    command = [sys.executable, "-c", _ASK]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = releases.wanted(make())
    assert json.loads(done.stdout) == [found.name, found.inputs]


@pytest.mark.parametrize(("route", "compiled"), [("source", True), ("overlay", False)])
def test_a_release_says_whether_it_is_compiled_so_that_one_host_does_it_for_all(
    make, route, compiled
):
    assert releases.wanted(make(build_route=route)).is_compiled is compiled
