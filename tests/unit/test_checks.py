"""Which hosts are refused."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.shared import checks, patches
from tasks.shared.facts.machine import Machine, parse

GOOD = Machine(
    pid1="systemd",
    arch="x86_64",
    user="0",
    os="ubuntu 24.04",
    kernel="6.6.87.2-microsoft-standard-WSL2",
    python="3.12.3",
)


CUDA: Any = SimpleNamespace(accelerator="cuda", wsl2=True)
CPU: Any = SimpleNamespace(accelerator="cpu", wsl2=False)


def test_a_good_host_passes():
    assert checks.refusals(GOOD, CUDA) == []


def test_the_cpu_build_wants_the_python_that_it_is_locked_for():
    host = replace(GOOD, kernel="6.1.0-debian", python="3.11.2")
    assert checks.refusals(host, CPU) == []
    (line,) = checks.refusals(replace(host, python="3.12.3"), CPU)
    assert "locked for 3.11" in line


def test_wsl2_is_a_setting_that_must_be_true():
    (line,) = checks.refusals(replace(GOOD, kernel="6.1.0-debian"), CUDA)
    assert "set wsl2 = False" in line
    (line,) = checks.refusals(replace(GOOD, python="3.11.2"), CPU)
    assert "set wsl2 = True" in line


def test_a_host_without_python_yet_passes_for_it_will_be_installed():
    assert checks.refusals(replace(GOOD, python=""), CUDA) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pid1": "init"}, ["wsl.conf", "wsl --shutdown"]),
        ({"user": "1000"}, ["_sudo = True"]),
        ({"arch": "aarch64"}, ["aarch64", "x86_64"]),
        ({"os": "fedora 43"}, ["fedora", "Debian"]),
        ({"python": "3.9.2"}, ["3.9.2", "3.10"]),
    ],
)
def test_a_bad_host_is_refused_with_the_remedy(changes, words):
    (line,) = checks.refusals(replace(GOOD, **changes), CUDA)
    assert all(word in line for word in words)


def test_everything_wrong_is_said_at_once():
    assert len(checks.refusals(Machine(pid1="init", user="1", arch="arm", os="x"), CUDA)) == 5


def test_what_the_host_says_is_read():
    lines = ["pid1=systemd", "arch=x86_64", "user=0", "os=debian 12", "kernel=6.1.0"]
    lines += ["python=3.11.2"]
    assert parse(lines) == Machine("systemd", "x86_64", "0", "debian 12", "6.1.0", "3.11.2")
    assert parse(["python=sh: 1: /usr/bin/python3: not found"]).python == ""
    assert parse([]) == Machine()


def test_kv_offload_under_wsl2_is_warned_of_where_the_series_lacks_the_patch(make, monkeypatch):
    assert checks.warnings(make()) == []
    monkeypatch.setattr(patches, "series", lambda version: [])
    (line,) = checks.warnings(make())
    assert "kv_ram_gib = 0" in line
    assert checks.warnings(make(kv_ram_gib=0, kv_ssd_gb=0)) == []
    assert checks.warnings(make(wsl2=False)) == []
