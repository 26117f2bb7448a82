"""An uninstall removes folders, and never what is mounted in one."""

import pytest

from hostkit.host import paths, serviceuser, units
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


def test_a_plan_names_what_goes_and_what_stays_and_removes_nothing(monkeypatch, tmp_path):
    for name in ("UNITS", "DATA"):
        monkeypatch.setattr(uninstall, name, tmp_path / name)
    for name in ("ETC", "OPT", "HEALTH"):
        monkeypatch.setattr(paths, name, tmp_path / name)
    monkeypatch.setattr(uninstall, "PACKAGES", tmp_path / "installed-packages")
    monkeypatch.setattr(serviceuser, "account", lambda: None)
    (tmp_path / "installed-packages").write_text("gcc\n")
    for file in ("UNITS/vllm.service", "ETC/x", "OPT/x", "DATA/models/x", "DATA/kv/x"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("# Managed by the vLLM deploy\n")
    (tmp_path / "UNITS/vllm-proxy.service").write_text("[Unit]\n")
    before = sorted(tmp_path.rglob("*"))
    kv = tmp_path / "DATA/kv"
    words = ["would remove", "would keep"]
    assert uninstall.plan([], kv) == [
        f"{words[0]} {tmp_path}/UNITS/vllm.service",
        f"{words[0]} {tmp_path}/ETC",
        f"{words[0]} {tmp_path}/OPT",
        f"{words[1]} {tmp_path}/DATA/models, 0.0 GB (models)",
        f"{words[1]} {kv}, 0.0 GB (kv)",
        f"{words[1]} packages gcc",
    ]
    told = uninstall.plan(["models", "packages"], kv)
    assert [line for line in told if "models" in line or "gcc" in line] == [
        f"{words[0]} {tmp_path}/DATA/models, 0.0 GB (models)",
        f"{words[0]} packages gcc",
    ]
    assert sorted(tmp_path.rglob("*")) == before
