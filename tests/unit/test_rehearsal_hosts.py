"""Names, ports, addresses and locks of rehearsal hosts."""

import ipaddress
import json
import os
import subprocess
import sys
import threading

import pytest

from tests.rehearsal.host import network, processes, rootfs, state
from tests.rehearsal.host.errors import RehearsalError


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "HOSTS", tmp_path / ".rehearsal")
    return state.HOSTS


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-a", "Upper", "a" * 32, "9lives", "a b"])
def test_a_name_that_could_leave_its_folder_is_refused(name):
    with pytest.raises(RehearsalError, match="host name"):
        state.folder_of(name)


def test_a_saved_host_is_the_one_that_is_loaded(hosts):
    host = state.Host("one", 20001, 20002, 20003, 20004, private_network=True)
    state.make_folder(host.folder)
    state.save(host)
    assert state.load("one") == host
    assert json.loads((hosts / "one/state.json").read_text())["key"] == str(hosts / "one/key")


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"name": "one"}'])
def test_a_missing_or_broken_state_says_how_to_make_the_host(hosts, content):
    state.make_folder(hosts / "one")
    if content is not None:
        (hosts / "one/state.json").write_text(content)
    with pytest.raises(RehearsalError, match=r"python -m tests\.rehearsal up --name one"):
        state.load("one")


def test_ports_stay_the_same_as_long_as_they_are_free():
    first = state.pick_ports("/clone/one", 2, set(), lambda port: True)
    assert first == state.pick_ports("/clone/one", 2, set(), lambda port: True)
    assert first != state.pick_ports("/clone/two", 2, set(), lambda port: True)


def test_taken_and_busy_ports_are_passed_over():
    first, second = state.pick_ports("/clone/one", 2, set(), lambda port: True)
    picked = state.pick_ports("/clone/one", 2, {first}, lambda port: port != second)
    assert len(set(picked) | {first, second}) == 4
    assert all(20000 <= port < 32768 for port in picked)


def test_no_free_port_at_all_is_said():
    with pytest.raises(RehearsalError, match="no 2 free ports"):
        state.pick_ports("x", 2, set(), lambda port: False)


def test_a_lock_is_not_held_on_a_folder_that_its_last_holder_removed(tmp_path):
    folder = tmp_path / "host"
    entered = threading.Event()

    def second() -> None:
        with state.locked(folder):
            assert folder.is_dir()
            entered.set()

    with state.locked(folder):
        waiting = threading.Thread(target=second)
        waiting.start()
        folder.rmdir()
    waiting.join(10)
    assert entered.is_set()


def test_a_killed_process_holds_no_lock(tmp_path):
    code = (
        "import pathlib, sys, time; from tests.rehearsal.host import state\n"
        "with state.locked(pathlib.Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "host")],
        cwd=state.REPOSITORY,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    holder.kill()
    holder.communicate()
    with state.locked(tmp_path / "host"):
        pass


def test_each_host_has_a_small_network_that_holds_both_its_ends():
    for number in range(300):
        control, host = network.addresses(f"{number:08x}")
        pair = ipaddress.IPv4Network(f"{control}/30", strict=False)
        assert pair.subnet_of(ipaddress.IPv4Network("10.0.0.0/8"))
        assert [str(address) for address in pair.hosts()] == [control, host]


def test_the_cached_root_is_another_one_when_the_recipe_is_another_one():
    plain = rootfs.recipe_command([], [])
    keys = {
        rootfs.recipe_key(plain),
        rootfs.recipe_key(rootfs.recipe_command(["deb http://m.example/debian bookworm main"], [])),
        rootfs.recipe_key(rootfs.recipe_command([], ['Acquire::Check-Date "false";'])),
    }
    assert len(keys) == 3
    assert rootfs.recipe_key(plain) == rootfs.recipe_key(rootfs.recipe_command([], []))


def test_a_link_in_the_hosts_tree_never_leads_a_write_to_this_machine(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "resolv.conf").write_text("mine")
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/resolv.conf").symlink_to(outside / "resolv.conf")
    rootfs._put(root, "etc/resolv.conf", "the host's")
    (root / "var").symlink_to(outside)
    with pytest.raises(RehearsalError, match="leads out"):
        rootfs._put(root, "var/x", "the host's")
    assert (outside / "resolv.conf").read_text() == "mine"
    assert (root / "etc/resolv.conf").read_text() == "the host's"
    assert os.listdir(outside) == ["resolv.conf"]


def test_what_runs_a_root_is_found_by_that_root_alone(tmp_path):
    root = tmp_path / "a/root"
    sleeper = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)", f"--directory={root}"]
    )
    try:
        assert processes.wait(lambda: processes.supervisors(root) == [sleeper.pid], 10)
        assert processes.supervisors(tmp_path / "a/roo") == []
    finally:
        sleeper.kill()
        sleeper.wait()
    assert processes.supervisors(root) == []


@pytest.mark.parametrize("what", ["guard", "hostkit", "metrics"])
def test_a_measurement_of_a_host_that_is_not_there_says_so_in_one_line(what):
    done = subprocess.run(
        [sys.executable, "-m", f"tests.rehearsal.measure.{what}", "of-no-such-name"],
        cwd=state.REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: rehearsal host of-no-such-name: not there")
    assert "Traceback" not in done.stderr
