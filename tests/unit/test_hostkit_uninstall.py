"""An uninstall removes folders, and never what is mounted in one."""

import pytest

from hostkit.host import units
from hostkit.lifecycle import uninstall

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


@pytest.fixture
def packages(monkeypatch, tmp_path):
    """Packages that a deploy installed, one with a masked unit; the commands that are run."""
    commands: list[str] = []
    monkeypatch.setattr(uninstall, "PACKAGES", tmp_path / "installed-packages")
    monkeypatch.setattr(uninstall, "MASKED", tmp_path / "masked-units")
    uninstall.PACKAGES.write_text("gcc\nprometheus\ngcc\n")
    uninstall.MASKED.write_text("prometheus.service\nprometheus.service\n")
    monkeypatch.setattr(uninstall, "run", lambda words, what: commands.append(" ".join(words[2:])))
    monkeypatch.setattr(units, "systemctl", lambda *words: commands.append(words[-1]))
    return commands


def test_a_unit_that_was_masked_stays_so_while_its_package_does(packages, capsys):
    uninstall._packages(remove=False)
    assert packages == []
    assert uninstall.MASKED.exists()
    assert "prometheus.service is masked, or it would start at the next boot" in (
        capsys.readouterr().out
    )


def test_a_unit_that_was_masked_is_free_again_once_its_package_is_gone(packages):
    uninstall._packages(remove=True)
    assert packages == ["apt-get remove --yes --quiet gcc prometheus", "prometheus.service"]
    assert not uninstall.MASKED.exists()
    assert not uninstall.PACKAGES.exists()
