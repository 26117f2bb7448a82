"""Which process is somebody's vLLM, and what it serves."""

import pytest

from hostkit.host import units
from hostkit.host.process import Failure
from hostkit.lifecycle import foreign

SERVE = ["/srv/venv/bin/python", "/srv/venv/bin/vllm", "serve", "/models/m", "--port", "9000"]


@pytest.mark.parametrize(
    ("words", "model"),
    [
        (SERVE, "/models/m"),
        (["python", "-m", "vllm.entrypoints.openai.api_server", "--model", "/m"], "/m"),
        (["python", "-m", "vllm.entrypoints.openai.api_server", "--model=/m"], "/m"),
        (["vllm", "serve", "--config", "a.yaml"], None),
        (["vllm", "serve"], None),
    ],
)
def test_the_model_is_read_from_the_command_line(words, model):
    assert foreign.model_of(words) == model


def test_the_model_may_stand_in_a_configuration_file(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_text('port: 8000\nmodel: "/models/m"\n')
    assert foreign.model_of(["vllm", "serve", "--config", str(file)]) == "/models/m"


@pytest.fixture
def processes(tmp_path, monkeypatch):
    """A /proc with processes as a test makes them."""
    monkeypatch.setattr(units, "PROC", tmp_path)

    def make(pid, words, group, parent=1):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_bytes("\0".join([*words, ""]).encode())
        (folder / "cgroup").write_text(f"0::{group}\n")
        (folder / "status").write_text(f"Name:\tx\nPPid:\t{parent}\nUid:\t0\t0\t0\t0\n")

    return make


def test_a_server_is_found_by_its_unit_or_its_process_and_its_children_are_none(processes):
    processes(10, SERVE, "/system.slice/my-llm.service")
    processes(11, SERVE, "/system.slice/my-llm.service", parent=10)
    processes(20, SERVE, "/user.slice/user-0.slice/session-1.scope")
    processes(30, SERVE, "/system.slice/vllm.service")
    processes(31, ["vim", "vllm-notes.txt"], "/user.slice/user-0.slice/session-1.scope")
    found = foreign.find()
    assert [(each.name, each.pid, each.unit) for each in found] == [
        ("my-llm.service", 10, "my-llm.service"),
        ("20", 20, None),
    ]
    assert found[0].user == "root"


def test_only_what_is_named_is_taken_and_the_others_are_listed(processes):
    with pytest.raises(Failure, match=r"no vLLM called x to adopt: none runs here"):
        foreign.named("x")
    processes(10, SERVE, "/system.slice/my-llm.service")
    with pytest.raises(Failure, match=r"no vLLM called vllm to adopt: my-llm.service: process 10"):
        foreign.named("vllm")
    assert foreign.named("my-llm.service").pid == 10
