"""What the script says about a host is read; the script itself is run here, on this machine."""

import base64
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tasks.shared.facts import access
from tasks.shared.facts.file_access import FileAccess
from tasks.shared.facts.machine import Machine, MachineFact, Place, parse
from tasks.shared.host_checks import gpus
from tests.unit.machines import GPUS


def sent(name: str, content: bytes) -> str:
    return f"{name}:{base64.b64encode(content).decode()}"


def run(**changes):
    arguments: dict[str, Any] = {
        "model": "/m",
        "kv": "/k",
        "ports": [1],
        "private": [],
        "cuda_home": "/c",
        "wsl2": False,
    }
    command = MachineFact().command(**(arguments | changes))
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return parse(done.stdout.splitlines(), asked_at=0)


def test_nothing_said_is_nothing_known():
    assert parse([], asked_at=0) == Machine()
    assert parse(["garbage", "meminfo:*", "now="], asked_at=0) == Machine()


def test_what_is_said_is_read():
    lines = ["pid1=systemd", "os=ubuntu 24.04", "now=160", "windows=/mnt/c"]
    lines += [sent("wsl_conf", b"[boot]\r\n"), sent("windows_user", b"me")]
    lines += [sent("wslconfig", b"me\n\xff\xfe[\0"), sent("place", b"kv\n/mnt/c/kv\n 100  40\n")]
    lines += [sent("place", b"model\n/m\n")]
    lines += [sent("listening", b"8000\n"), sent("listening", b"8000\n")]
    lines += [sent("listener", b"8000\n0::/system.slice/vllm.service \n12\nvllm\0serve\0")]
    lines += [sent("listening", b"9090\n")]
    lines += [sent("vllm", b"0::/user.slice \n13\nVLLM::EngineCore\0")]
    lines += [sent("vllm", b"0::/user.slice \n14\njournalctl\0-u\0vllm\0")]
    machine = parse(lines, asked_at=100)
    assert (machine.pid1, machine.os, machine.clock_ahead_s) == ("systemd", "ubuntu 24.04", 60)
    assert machine.wsl_conf == b"[boot]\r\n"
    assert machine.windows_users == ("me",)
    assert machine.wslconfigs == {"me": b"\xff\xfe[\0"}
    assert machine.places == {"kv": Place("/mnt/c/kv", 100, 40), "model": Place("/m")}
    assert {port: len(holders) for port, holders in machine.listeners.items()} == {8000: 1, 9090: 0}
    assert machine.listeners[8000][0].is_ours
    assert [process.pid for process in machine.engines] == [13]
    assert not machine.engines[0].is_ours


def test_the_script_tells_about_this_machine(tmp_path):
    kv = tmp_path / "link"
    kv.symlink_to(tmp_path / "real")
    machine = run(kv=f"{kv}/not/yet")
    assert machine.arch == os.uname().machine
    assert machine.user == str(os.getuid())
    assert machine.pid1 == Path("/proc/1/comm").read_text().strip()
    assert machine.python.count(".") == 2
    assert "MemTotal" in machine.meminfo
    assert machine.mounts == Path("/proc/mounts").read_text()
    place = machine.places["kv"]
    assert place.path == str(tmp_path.resolve() / "real/not/yet")
    assert place.size_kib
    assert machine.listeners == {}


def test_the_script_says_who_may_read_a_file_behind_a_link(tmp_path):
    key, link = tmp_path / "key", tmp_path / "link"
    key.touch()
    link.symlink_to(key)
    for mode in (0o600, 0o4644):
        key.chmod(mode)
        found = run(private=[str(link), f"{tmp_path}/gone", str(tmp_path)]).private
        assert found == {str(link): FileAccess(Path(key).owner(), mode)}


def test_the_script_names_who_listens_on_each_port():
    with socket.socket() as one, socket.socket() as other:
        for server in (one, other):
            server.bind(("127.0.0.1", 0))
            server.listen()
        ports = [server.getsockname()[1] for server in (one, other)]
        found = run(ports=[*ports, 1]).listeners
    assert sorted(found) == sorted(ports)
    assert all(os.getpid() in [process.pid for process in found[port]] for port in ports)


def test_the_script_finds_an_engine_that_somebody_started():
    code = "import sys, time; print(flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code, "bin/vllm", "serve", "--port", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout
        server.stdout.readline()
        found = [process.pid for process in run().engines]
        server.kill()
    assert server.pid in found


def test_the_script_runs_the_toolkits_nvcc_by_its_path(tmp_path):
    nvcc = tmp_path / "bin/nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho 'release 13.0, V13.0.88'\n")
    nvcc.chmod(0o755)
    assert "13.0" in run(cuda_home=str(tmp_path)).nvcc
    assert run(cuda_home=f"{tmp_path}/no").nvcc == ""


def test_gpus_are_read_from_what_nvidia_smi_prints():
    found = gpus.parse(f"WARNING: something\n{GPUS}")
    assert [(gpu.index, gpu.lanes) for gpu in found] == [(0, 16), (1, 8)]
    assert (found[0].total_mib, found[0].driver) == (12227, "581.80")
    (unknown,) = gpus.parse("0, A, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A]\n")
    assert (unknown.total_mib, unknown.lanes) == (None, None)
    assert gpus.parse("Failed to initialize NVML: Driver/library version mismatch\n") == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["user=0"], access.Access("0")),
        (["user=1000", "sudo=sudo-rs 0.2.8"], access.Access("1000", "sudo-rs 0.2.8")),
        (
            ["user=1000", "sudo=Sudo version 1.9.13p3", "unasked=yes"],
            access.Access("1000", "Sudo version 1.9.13p3", True),
        ),
    ],
)
def test_the_kind_of_sudo_is_read(lines, expected):
    assert access.parse(lines) == expected
