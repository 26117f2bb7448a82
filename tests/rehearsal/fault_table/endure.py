"""Lets a fault come over a host that serves, and asserts all that must hold whatever it is."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from .. import deploys
from ..host import state
from .fault import Fault

# A user's own files, in places where a careless clean-up would find them.
_MINE = (
    "/etc/vllm/mine",
    "/etc/systemd/system/mine.service",
    "/opt/vllm/releases/mine/notes",
    "/opt/vllm/mine/notes",
    "/var/lib/vllm/home/mine",
    "/var/lib/vllm/models/mine/weights",
)
_SHELL = Path(__file__).with_name("shell.sh").read_text("utf-8")


def settle_in(host: str) -> None:
    """Put the user's own files there."""
    lines = [f"mkdir -p $(dirname {file}); echo mine >{file}" for file in _MINE]
    deploys.on_host("sh -es", host=host, stdin="\n".join(lines) + "\n")


def move_out(host: str) -> None:
    """Take them away again."""
    deploys.on_host(f"rm -rf {' '.join(_MINE)} /opt/vllm/releases/mine /opt/vllm/mine", host=host)


def endure(host: str, fault: Fault) -> None:
    """Plant it, run the task, remove it, and deploy until nothing changes: the second time."""
    if fault.data:
        done = deploys.pyinfra("deploy.py", "-y", *fault.data, host=host)
        assert done.returncode == 0, done.stderr[-3000:]
    before = deploys.hostkit_state(host)
    assert before["answering"]
    generation = before["running"]
    served_by, kept = _server(host), _belongings(host)
    told = (*fault.data, *fault.change)
    try:
        _shell(host, generation, fault.plant)
        done = deploys.pyinfra(fault.task, "-y", *told, host=host)
        _assert_told(fault, done)
        if fault.untouched or fault.meanwhile:
            if fault.answers:
                assert deploys.request(host, "/health")[0] == 200
            assert _server(host) == served_by
    finally:
        _shell(host, generation, fault.remove)
    if fault.said:
        done = deploys.pyinfra("deploy.py", "-y", *told, host=host)
        assert done.returncode == 0, done.stderr[-3000:]
    done = deploys.pyinfra("deploy.py", "-y", *told, host=host)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "] Success" not in done.stderr, done.stderr[-9000:]
    assert deploys.ask("What is the capital of France?", host=host).endswith("Paris.")
    after = deploys.hostkit_state(host)
    assert after["current"] == after["running"]
    assert after["unit_in_force"]
    assert after["generations"].keys() >= before["generations"].keys()
    assert not after["lock"]
    if fault.untouched:
        assert _server(host) == served_by
    assert _belongings(host) == kept


def _assert_told(fault: Fault, done: subprocess.CompletedProcess[str]) -> None:
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said[-3000:]
    assert "Could not load fact" not in said, said[-3000:]
    assert done.returncode == (1 if fault.said else 0), said[-3000:]
    words = fault.said or fault.shown
    assert any(all(word in line for word in words) for line in said.splitlines()), said[-3000:]


def _shell(host: str, generation: int, commands: str) -> None:
    folder = f"/opt/vllm/generations/{generation}"
    known = (
        f"N={generation} G={folder} PORT={state.load(host).api_port}\n"
        f"R=$(readlink -f {folder}/release) V=$(echo {folder}/release/venv/lib/python3*/s*-p*)\n"
        "M=$(ls -d /var/lib/vllm/models/model-*)\n"
    )
    deploys.on_host("sh -s", host=host, stdin=f"{_SHELL}\n{known}{commands}\n")


def _server(host: str) -> str:
    """The process that serves, and which start of the unit it is of."""
    return deploys.on_host("systemctl show vllm -p MainPID -p InvocationID", host=host)


def _belongings(host: str) -> tuple[str, Any]:
    """The user's own files, the API key on both sides."""
    hashed = f"sha256sum {' '.join(_MINE)} /etc/vllm/secrets.env"
    return deploys.on_host(hashed, host=host), deploys.api_key(host)
