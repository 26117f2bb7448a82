"""The sweep of /dev/shm, which is imitated by a folder."""

import os

import pytest

from hostkit.host import sweep, units
from hostkit.host.process import Failure


@pytest.fixture
def proc(tmp_path, monkeypatch):
    """Makes processes in an imitated /proc."""
    monkeypatch.setattr(units, "PROC", tmp_path)

    def process(pid, maps):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / f"{pid}/maps").write_text(maps)

    return process


@pytest.fixture
def shm(tmp_path, monkeypatch, proc):
    """An imitated /dev/shm, in which the files are those of the test's own user."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(sweep, "SHM", folder)
    monkeypatch.setattr(sweep, "service_uid", os.getuid)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return folder


OURS = ["psm_1a2b", "sem.mp-x_y1", "vllm_offload_9f-3.mmap"]


def test_what_a_dead_server_left_goes_and_nothing_else(shm):
    for name in [*OURS, "pulse-shm-1", "sem.other", "vllm_offload_.mmap.bak"]:
        (shm / name).write_bytes(b"1234")
    (shm / "psm_link").symlink_to(shm / "sem.other")
    (shm / "psm_folder").mkdir()
    assert sorted(sweep.leftovers()) == [f"{name} (4 bytes)" for name in OURS]
    assert sorted(sweep.sweep()) == [f"{name} (4 bytes)" for name in OURS]
    left = {"pulse-shm-1", "sem.other", "vllm_offload_.mmap.bak", "psm_link", "psm_folder"}
    assert {each.name for each in shm.iterdir()} == left
    assert sweep.sweep() == []


def test_what_a_process_has_mapped_stays(shm, proc):
    for name in OURS:
        (shm / name).touch()
    info = (shm / OURS[2]).stat()
    device = f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}"
    proc(7, f"7f00-7f01 rw-s 00000000 {device} {info.st_ino}    /dev/shm/{OURS[2]}\n")
    assert len(sweep.sweep()) == 2
    assert [each.name for each in shm.iterdir()] == [OURS[2]]


def test_files_of_another_user_stay(shm, monkeypatch):
    (shm / OURS[0]).touch()
    monkeypatch.setattr(sweep, "service_uid", lambda: os.getuid() + 1)
    assert sweep.sweep() == []
    monkeypatch.setattr(sweep, "service_uid", lambda: None)
    assert sweep.sweep() == []
    assert (shm / OURS[0]).exists()


def test_who_cannot_see_all_mappings_removes_nothing(shm, monkeypatch):
    (shm / OURS[0]).touch()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Failure, match="use sudo"):
        sweep.sweep()
    assert (shm / OURS[0]).exists()
