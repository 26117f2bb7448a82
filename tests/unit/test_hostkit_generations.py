"""Generations on the host, and the gate before a start."""

import json
import platform
import sys
from pathlib import Path

import pytest

from hostkit.generation import gate, generations
from hostkit.host import paths
from hostkit.host.process import Failure
from hostkit.lifecycle import watch
from hostkit.model import weights
from tests.unit.test_hostkit_weights import shard


@pytest.fixture
def opt(tmp_path, monkeypatch):
    """An /opt/vllm with generation 1 and 2, a release and a model that are complete."""
    for name in ("GENERATIONS", "CURRENT", "PREVIOUS"):
        monkeypatch.setattr(paths, name, tmp_path / name.lower())
    release = tmp_path / "releases/r"
    (release / "venv/bin").mkdir(parents=True)
    (release / "venv/bin/vllm").touch()
    (release / "venv/bin/python").symlink_to(sys.executable)
    (release / "venv/lib/python3.11/site-packages").mkdir(parents=True)
    manifest = {"python": platform.python_version(), "records": {}, "patches": []}
    (release / "manifest.json").write_text(json.dumps(manifest))
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    shard(model / "model.safetensors")
    for number in (1, 2):
        folder = tmp_path / f"generations/{number}"
        folder.mkdir(parents=True)
        note = dict.fromkeys(generations._NOTED, "x")
        note |= {"digest": f"d{number}", "model_dir": str(model)}
        (folder / "generation.json").write_text(json.dumps(note))
        for name in ("serve.yaml", "vllm.env", "vllm.service"):
            (folder / name).write_text(f"{name} of {number}\n")
        (folder / "release").symlink_to(release)
    return tmp_path


def test_a_switch_moves_current_and_remembers_what_served(opt):
    generations.switch(1)
    assert generations.linked(paths.CURRENT) == 1
    generations.mark_verified(1)
    generations.switch(2)
    assert generations.linked(paths.CURRENT) == 2
    assert generations.linked(paths.PREVIOUS) == 1


def test_a_generation_that_never_served_is_nothing_to_go_back_to(opt):
    generations.switch(1)
    generations.switch(2)
    assert generations.linked(paths.PREVIOUS) is None


@pytest.mark.parametrize("torn", ["", "{", '{"digest"', "[]", "{}", '{"digest": "d2"}'])
def test_a_generation_that_a_power_cut_tore_is_none(opt, torn):
    (opt / "generations/2/generation.json").write_text(torn)
    generations._point(paths.CURRENT, 2)
    assert generations.numbers() == [1]
    assert generations.highest() == 2
    assert generations.linked(paths.CURRENT) is None
    with pytest.raises(Failure, match=r"no generation 2: there are \[1\]"):
        gate.check(2)


@pytest.mark.parametrize("target", ["generations/9", "../elsewhere/1", "generations", "mine"])
def test_a_link_that_leads_to_no_generation_names_none(opt, target):
    paths.CURRENT.symlink_to(target)
    assert generations.linked(paths.CURRENT) is None
    generations.switch(1)
    assert generations.linked(paths.CURRENT) == 1


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir])
def test_what_lies_in_a_links_place_is_not_removed(opt, make):
    make(paths.CURRENT)
    with pytest.raises(Failure, match=r"current is no link, .*: move it away"):
        generations.switch(1)
    assert not paths.CURRENT.is_symlink()


def test_a_complete_generation_passes_the_gate(opt):
    gate.check(1)


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        ("generations/1/vllm.env", "vllm.env of generation 1 is missing"),
        ("generations/1/vllm.service", "vllm.service of generation 1 is missing"),
        ("releases/r/manifest.json", "release r of generation 1 is incomplete"),
        ("releases/r/venv/bin/vllm", "release r of generation 1 is incomplete"),
        ("model/model.safetensors", "no .*safetensors file"),
    ],
)
def test_what_is_missing_is_refused_at_the_gate(opt, gone, told):
    (opt / gone).unlink()
    with pytest.raises(Failure, match=told):
        gate.check(1)


def test_a_model_that_was_changed_since_is_refused_at_the_gate(opt):
    """Its KV on the SSD would be served for the new weights."""
    file = opt / "generations/1/generation.json"
    note = json.loads(file.read_text()) | {"weights": weights.identity(opt / "model")}
    file.write_text(json.dumps(note))
    gate.check(1)
    shard(opt / "model/model.safetensors", size=65)
    with pytest.raises(Failure, match="not the one of generation 1"):
        gate.check(1)


@pytest.mark.parametrize(
    ("changes", "over"),
    [
        ({}, False),
        ({"ActiveState": "activating", "SubState": "start"}, False),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, True),
        ({"ActiveState": "failed", "SubState": "failed"}, True),
        ({"ActiveState": "inactive", "SubState": "dead"}, True),
        ({"ActiveState": "deactivating", "SubState": "stop-sigterm"}, True),
        ({"InvocationID": "another"}, True),
    ],
)
def test_when_a_start_is_over(changes, over):
    shown = {"ActiveState": "active", "SubState": "running", "InvocationID": "this"} | changes
    assert watch._is_over(shown, watch.Attempt("this", 0.0)) is over
