"""vLLM itself is asked whether it would start, before a generation is staged. The real engine."""

import json

import pytest

from . import deploys
from .host import state

HOSTKIT = "python3 -IB /opt/vllm/hostkit"


def serving(host):
    return deploys.on_host("systemctl show vllm -p MainPID -p NRestarts", host=host)


@pytest.fixture
def copy(deployed):
    """A copy of the current generation under another number, to spoil by hand."""
    number = deploys.hostkit_state(deployed)["current"]
    folder = "/opt/vllm/generations/93"
    deploys.on_host(f"cp -a /opt/vllm/generations/{number} {folder}", host=deployed)
    yield folder
    deploys.on_host(f"rm -r {folder}", host=deployed)


def test_a_misspelt_key_of_serve_yaml_is_refused_and_its_twin_passes(deployed, copy):
    before = serving(deployed)
    ask = f"{HOSTKIT} check-config 93 2>&1 || true"
    assert "accepted by its own vLLM" in deploys.on_host(ask, host=deployed)
    deploys.on_host(f"sed -i s/enforce-eager/enforce-eagre/ {copy}/serve.yaml", host=deployed)
    said = deploys.on_host(ask, host=deployed)
    assert "unrecognized arguments: --enforce-eagre" in said
    assert len(said.splitlines()) == 1
    assert serving(deployed) == before


def test_a_deploy_that_vllm_refuses_stages_nothing_and_the_server_goes_on(deployed):
    """A name that no list of ours knows: only vLLM can tell that it has no such parser."""
    before = serving(deployed), deploys.hostkit_state(deployed)
    done = deploys.pyinfra("deploy.py", "-y", "--data", "reasoning_parser=qwen33", host=deployed)
    assert done.returncode == 1
    assert "vLLM refuses this configuration" in done.stderr
    assert "qwen33" in done.stderr
    assert "Traceback" not in done.stderr
    assert (serving(deployed), deploys.hostkit_state(deployed)) == before
    assert "candidate" not in deploys.on_host("ls /opt/vllm/generations", host=deployed)


def test_the_list_of_flags_and_variables_is_the_one_of_this_vllm(deployed):
    """What the settings check takes for misspelt is judged by it."""
    program = (state.REPOSITORY / "files/compat/names.py").read_text()
    python = "HOME=/tmp /opt/vllm/current/release/venv/bin/python -IB - 2>/dev/null"
    said = deploys.on_host(python, host=deployed, stdin=program).splitlines()
    listed = (state.REPOSITORY / "files/compat/vllm-0.31.0/names").read_text().splitlines()
    assert [line for line in said if line.startswith(("flag ", "env "))] == listed


def test_the_answer_lies_with_the_generation(deployed):
    text = deploys.on_host("cat /opt/vllm/current/answer.json", host=deployed)
    assert json.loads(text) == {"verdict": "accepted", "reason": "checked for cpu"}
