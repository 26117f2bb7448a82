"""Room to write down what a switch leaves behind. Full disks are imitated."""

import os

import pytest

from hostkit.host import room
from hostkit.host.process import Failure


def statvfs(monkeypatch, **changes):
    usual = {"f_frsize": 4096, "f_bavail": 10**6, "f_files": 10**6, "f_favail": 10**5}
    found = type("Found", (), usual | changes)
    monkeypatch.setattr(os, "statvfs", lambda _folder: found)


def test_a_folder_with_room_passes_and_one_that_is_not_there(tmp_path, monkeypatch):
    statvfs(monkeypatch)
    room.require(tmp_path, tmp_path / "later")
    statvfs(monkeypatch, f_files=0, f_favail=0)  # btrfs does not count
    room.require(tmp_path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"f_bavail": 100}, "no room is left on the disk of "),
        ({"f_favail": 3}, "no room for more files is left on the disk of "),
    ],
)
def test_a_full_disk_is_named(tmp_path, monkeypatch, changes, told):
    statvfs(monkeypatch, **changes)
    with pytest.raises(Failure, match=f"{told}{tmp_path}: make some"):
        room.require(tmp_path)


def test_a_read_only_file_system_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda _folder, _mode: False)
    with pytest.raises(Failure, match=f"{tmp_path} cannot be written to: .* read-only"):
        room.require(tmp_path)
