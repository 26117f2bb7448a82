"""An uninstall removes folders, and never what is mounted in one."""

from hostkit import uninstall

TABLE = (
    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "40 22 8:2 / /opt/vllm/cache/my\\040disk rw - ext4 /dev/sdb1 rw\n"
)


def test_mount_points_are_read_as_the_kernel_writes_them():
    assert {str(point) for point in uninstall.mount_points(TABLE)} == {
        "/",
        "/opt/vllm/cache/my disk",
    }


def test_what_is_mounted_is_kept_with_the_way_to_it_and_all_else_goes(tmp_path):
    for name in ("a/x", "cache/disk/data", "cache/other/y"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "cache/disk")
    kept = uninstall.clear(tmp_path, {tmp_path / "cache/disk"})
    assert kept == [tmp_path / "cache/disk"]
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["cache", "cache/disk", "cache/disk/data"]


def test_a_folder_without_mounts_goes_as_a_whole_and_a_link_leads_nowhere(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/data").write_text("")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/link").symlink_to(tmp_path / "outside")
    assert uninstall.clear(tmp_path / "ours", set()) == []
    assert (tmp_path / "outside/data").exists()
    assert not (tmp_path / "ours").exists()
