"""What the unit's main process does with what systemd handed to it; vLLM's program is imitated."""

import json
import os

import pytest

from hostkit.generation import gate, generations, start, starts
from hostkit.host import paths
from hostkit.host.process import Failure

NOTE = {
    "digest": "0123456789ab",
    "release": "r",
    "version": "1",
    "served_model_name": "m",
    "model_dir": "/m",
    "address": "127.0.0.1",
    "port": 8000,
}
HANDED_OVER = {"GENERATION_DIGEST": "0123456789ab", "VLLM_API_KEY": "key"}


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Generation 3 is current, and its machine in order; the folder of all generations."""
    folder = tmp_path / "generations"
    (folder / "3").mkdir(parents=True)
    (folder / "3/generation.json").write_text(json.dumps(NOTE))
    (tmp_path / "releases/r").mkdir(parents=True)
    (folder / "3/release").symlink_to(tmp_path / "releases/r")
    (tmp_path / "current").symlink_to("generations/3")
    monkeypatch.setattr(paths, "GENERATIONS", folder)
    monkeypatch.setattr(paths, "CURRENT", tmp_path / "current")
    monkeypatch.setattr(start, "STARTED", tmp_path / "start.json")
    for module, check in ((starts, "check"), (gate, "check"), (gate, "check_machine")):
        monkeypatch.setattr(module, check, lambda *_: None)
    for name in HANDED_OVER:
        monkeypatch.setenv(name, HANDED_OVER[name])
    return folder


@pytest.fixture
def became(monkeypatch):
    """The command lines that the process has become."""
    found: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, words: found.append([program, *words[1:]]))
    return found


def test_it_becomes_the_vllm_of_its_own_release_and_notes_whose_it_is(host, became, capsys):
    start.start()
    release = host.parent / "releases/r"
    assert became == [[f"{release}/venv/bin/vllm", "serve", "--config", f"{host}/3/serve.yaml"]]
    assert start.running_generation(os.getpid()) == 3
    assert capsys.readouterr().out == "hostkit: generation 3, release r\n"


@pytest.mark.parametrize(
    ("variable", "value", "status", "told"),
    [
        ("GENERATION_DIGEST", "", os.EX_CONFIG, "vllm.env of generation 3 is damaged"),
        ("GENERATION_DIGEST", "ba9876543210", os.EX_TEMPFAIL, "`current` moved while"),
        ("VLLM_API_KEY", "", os.EX_CONFIG, "secrets.env holds no API key"),
    ],
)
def test_what_was_handed_over_wrong_is_refused(
    host, became, monkeypatch, capsys, variable, value, status, told
):
    monkeypatch.setenv(variable, value)
    assert start.start() == status
    assert told in capsys.readouterr().err
    assert became == []


def test_a_host_without_a_current_generation_starts_nothing(host, became, capsys):
    (host / "3/generation.json").unlink()
    assert generations.linked(paths.CURRENT) is None
    assert start.start() == os.EX_CONFIG
    assert "names no generation: deploy again" in capsys.readouterr().err
    assert became == []


@pytest.mark.parametrize(
    ("refusal", "status"),
    [(Failure("no GPU"), os.EX_CONFIG), (gate.NotNow("GPU is busy"), os.EX_TEMPFAIL)],
)
def test_what_may_pass_by_itself_is_tried_again_and_nothing_else(
    host, became, monkeypatch, capsys, refusal, status
):
    def refuse(_number):
        raise refusal

    monkeypatch.setattr(gate, "check_machine", refuse)
    assert start.start() == status
    assert str(refusal) in capsys.readouterr().err
    assert became == []
