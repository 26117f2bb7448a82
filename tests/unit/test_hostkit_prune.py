"""Each rule by which blocks of the SSD tier are removed, with its twin."""

import fcntl
import os
import platform
import time
from argparse import Namespace

import pytest

from hostkit.health import doctor
from hostkit.host import paths, units, windowsdisk
from hostkit.host.process import Failure
from hostkit.kv import blocks, prune, quota
from hostkit.metrics import figures
from tasks.shared.health import tiers
from tests.unit import kv_tier
from tests.unit.kv_tier import HOUR, NOW, UNUSED, USED, pruned


@pytest.fixture
def tier(tmp_path, monkeypatch):
    return kv_tier.make(tmp_path, monkeypatch)


def test_above_the_quota_the_least_recently_used_go_down_to_below_it(tier):
    files = tier.blocks(11)
    (line,) = pruned()
    assert tier.left() == set(files[:9])
    assert "removed 2 blocks" in line


def test_at_the_quota_nothing_goes(tier):
    files = tier.blocks(10)
    (line,) = pruned()
    assert tier.left() == set(files)
    assert "removed nothing" in line


def test_the_oldest_block_that_was_read_again_survives(tier):
    files = tier.blocks(11)
    os.utime(files[-1], (NOW, NOW))
    pruned()
    assert tier.left() == {*files[:8], files[-1]}


def test_what_no_generation_uses_goes_first_however_young(tier):
    old = tier.blocks(8)
    young = [tier.block(f"{n:064x}", 0, fingerprint=UNUSED) for n in range(3)]
    pruned()
    assert set(old) < tier.left()
    assert len(tier.left() & set(young)) == 1


def test_a_fingerprint_of_a_generation_to_go_back_to_is_in_use(tier):
    tier.generation(2, UNUSED)
    old = tier.blocks(8)
    young = [tier.block(f"{n:064x}", 0, fingerprint=UNUSED) for n in range(3)]
    pruned()
    assert tier.left() == {*old[:6], *young}


def test_when_the_unused_do_not_suffice_the_used_follow(tier):
    files = tier.blocks(12)
    tier.blocks(2, fingerprint=UNUSED)
    pruned()
    assert tier.left() == set(files[:9])


def test_of_blocks_with_one_time_only_so_many_go_as_must(tier):
    for number in range(20):
        tier.block(f"{number:064x}", 5)
    pruned()
    assert len(tier.left()) == 9


def test_each_of_two_equal_cuts_removes_its_own(tier):
    tier.limits(quota=10)
    tier.block("a" * 64, 5)
    tier.block("b" * 64, 5, fingerprint=UNUSED)
    pruned()
    assert tier.left() == set()


@pytest.mark.parametrize(
    ("used", "free", "gone"),
    [(150, 99, 0), (151, 99, 11), (151, 20, 11), (100, 19, 3), (151, 0, 22), (0, 0, 22)],
)
def test_quota_and_room_on_the_disk_are_two_limits(used, free, gone):
    assert quota.excess(used, free, quota=150, min_free=20) == gone


def test_blocks_go_for_room_on_the_disk_and_it_is_said_when_that_did_not_suffice(tier, monkeypatch):
    files = tier.blocks(5)
    monkeypatch.setattr(prune, "_free", lambda _root: 80)
    tier.limits(min_free=81)
    assert "removed 1 blocks" in pruned()[0]
    assert tier.left() == set(files[:4])
    tier.limits(min_free=80)
    assert len(pruned()) == 1
    tier.limits(min_free=1000)
    assert "no block left to give" in pruned()[1]
    assert tier.left() == set()


def test_a_temporary_file_is_being_written_until_it_is_a_day_old(tier):
    fresh = tier.file(tier.folder / USED / "m_r0/000/00_g0/a.bin_1.tmp", 23)
    tier.file(tier.folder / USED / "m_r0/000/00_g0/b.bin_2.tmp", 25)
    tier.file(tier.folder / USED / "m_0a1b/.o_direct_probe_3.tmp", 25)
    assert "removed 2 temporary files" in pruned()[0]
    assert tier.left() == {fresh}


@pytest.mark.parametrize(("processes", "stays"), [({7}, True), (set(), False)])
def test_without_a_server_that_writes_a_temporary_file_is_left_over(
    tier, monkeypatch, processes, stays
):
    monkeypatch.setattr(units, "processes_of", lambda: processes)
    file = tier.file(tier.folder / USED / "m_r0/000/00_g0/a.bin_1.tmp", 0)
    os.utime(file, (time.time() - 60,) * 2)
    prune._command(Namespace(dry_run=False))
    assert file.exists() is stays


def test_only_blocks_of_fingerprints_go(tier):
    tier.limits(quota=0)
    kept = {
        tier.file(tier.folder / USED / "m_0a1b/config.json", 99),
        tier.file(tier.folder / USED / "m_r0/000/00_g0/notes.txt", 99),
        tier.file(tier.folder / "mine/000/00_g0/a.bin", 99),
        tier.file(tier.folder / "a.bin", 99),
    }
    tier.blocks(2)
    pruned()
    assert tier.left() == kept


def test_a_link_is_not_followed_wherever_it_stands(tier):
    tier.limits(quota=0)
    outside = tier.file(tier.root / "outside/000/00_g0/a.bin", 99)
    tier.blocks(1)
    inside = tier.folder / USED / "m_0a1b_r0"
    (tier.folder / UNUSED).symlink_to(outside.parents[2])
    (inside / "link").symlink_to(outside.parents[1])
    (inside / "a.bin").symlink_to(outside)
    pruned()
    assert outside.exists()
    assert (inside / "a.bin").is_symlink()


def test_a_folder_exchanged_for_a_link_in_the_middle_of_a_walk_leads_nowhere(tier, monkeypatch):
    tier.limits(quota=0)
    outside = tier.file(tier.root / "outside/00_g0" / ("0" * 64 + ".bin"), 99)
    tier.blocks(1)
    victim = tier.folder / USED / "m_0a1b_r0/000"
    look = blocks.Walk._look

    def exchanged(self, folder, path, tally):
        found = look(self, folder, path, tally)
        if "000" in found[1]:
            victim.rename(tier.root / "away")
            victim.symlink_to(outside.parents[1])
        return found

    monkeypatch.setattr(blocks.Walk, "_look", exchanged)
    pruned()
    assert outside.exists()


def test_a_tier_that_is_a_link_is_refused(tier):
    tier.folder.rename(tier.root / "elsewhere")
    tier.folder.symlink_to(tier.root / "elsewhere")
    with pytest.raises(Failure, match="is a link"):
        pruned()


def test_files_on_another_device_stay(tier, monkeypatch):
    tier.limits(quota=0)
    files = tier.blocks(2)
    walk = blocks.Walk.__init__

    def other_device(self, *args, **kwargs):
        walk(self, *args, **kwargs)
        self._device += 1

    monkeypatch.setattr(blocks.Walk, "__init__", other_device)
    pruned()
    assert tier.left() == set(files)


def test_without_its_marker_nothing_is_removed_from_a_folder(tier):
    tier.limits(quota=0)
    files = tier.blocks(2)
    (tier.folder / prune.MARKER).unlink()
    with pytest.raises(Failure, match=r"has no \.vllm-kv-tier, so nothing is removed"):
        pruned()
    assert tier.left() == set(files)
    (tier.folder / prune.MARKER).touch()
    pruned()
    assert tier.left() == set()


def test_without_a_tier_or_its_folder_it_says_so(tier):
    tier.folder.rename(tier.root / "unmounted")
    assert "is not there" in pruned()[0]
    prune.LIMITS.unlink()
    assert pruned() == ["SSD tier: there is none: kv_ssd_gb is 0"]


@pytest.mark.parametrize("text", ["{}", "{", '{"folder": "/x", "quota_bytes": null}', "[]"])
def test_damaged_limits_remove_nothing(tier, text):
    files = tier.blocks(20)
    prune.LIMITS.write_text(text)
    with pytest.raises(Failure, match=r"kv-tier\.json"):
        pruned()
    assert tier.left() == set(files)


def test_files_that_vanish_meanwhile_are_no_error(tier, monkeypatch):
    tier.limits(quota=0)
    tier.blocks(4)
    real = os.unlink

    def gone(name, *, dir_fd):
        real(name, dir_fd=dir_fd)
        real(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", gone)
    assert "removed nothing" in pruned()[0]
    assert tier.left() == set()


def test_emptied_folders_go_and_what_the_server_has_just_made_stays(tier):
    tier.limits(quota=0)
    tier.blocks(3)
    base = tier.folder / USED / "m_0a1b_r0"
    old, young = base / "abc/00_g0", base / "def/00_g0"
    for each in (old, young):
        each.mkdir(parents=True)
    os.utime(old, (time.time() - HOUR,) * 2)
    pruned()
    assert [path for path in base.rglob("*") if path.is_dir()] == [young.parent, young]
    assert (tier.folder / USED).is_dir()


def test_a_dry_run_says_what_would_go_and_removes_nothing(tier):
    files = tier.blocks(11)
    temporary = tier.file(tier.folder / USED / "m_r0/000/00_g0/b.bin_2.tmp", 25)
    (line,) = pruned(dry_run=True)
    assert "would remove 2 blocks and 1 temporary files, 0.0 GB" in line
    assert tier.left() == {*files, temporary}
    assert not (paths.HEALTH / "kv_tier.prom").exists()
    assert "removed 2 blocks and 1 temporary files, 0.0 GB" in pruned()[0]


def test_one_prune_at_a_time(tier):
    files = tier.blocks(11)
    handle = os.open(tier.folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert pruned() == ["SSD tier: another prune is at work"]
        assert tier.left() == set(files)
    finally:
        os.close(handle)
    pruned()
    assert tier.left() == set(files[:9])


def test_before_a_start_it_gives_up_rather_than_keep_the_server_waiting(tier, monkeypatch, capsys):
    files = tier.blocks(11)
    monkeypatch.setattr(prune, "BEFORE_START_S", -1)
    prune.before_start()
    assert "not pruned before this start: it takes too long" in capsys.readouterr().out
    assert tier.left() == set(files)
    monkeypatch.setattr(prune, "BEFORE_START_S", 20)
    prune.before_start()
    assert tier.left() == set(files[:9])


@pytest.mark.parametrize(
    ("source", "order"),
    [("    os.utime(path)\n", prune.LRU), ("os.replace(a, b)\n", prune.FIFO), (None, prune.FIFO)],
)
def test_it_says_by_what_order_it_removes(tier, source, order):
    tier.blocks(11)
    if source:
        package = "release/venv/lib/python3.11/site-packages/vllm/v1/kv_offload/tiering/fs"
        folder = paths.CURRENT / package
        folder.mkdir(parents=True)
        (folder / "io.py").write_text(source)
    assert order in pruned()[0]


def test_figures_say_what_is_there_and_count_what_went(tier):
    tier.blocks(11)
    pruned()
    shown = figures.read("kv_tier")
    assert shown["vllm_kv_tier_bytes"] == 90
    assert shown["vllm_kv_tier_files"] == 9
    assert shown["vllm_kv_tier_quota_bytes"] == 100
    assert shown["vllm_kv_tier_removed_blocks_total"] == 2
    assert shown["vllm_kv_tier_oldest_use_timestamp_seconds"] == NOW - 9 * HOUR
    tier.blocks(12)
    pruned()
    assert figures.read("kv_tier")["vllm_kv_tier_removed_blocks_total"] == 5
    pruned()
    assert figures.read("kv_tier")["vllm_kv_tier_removed_bytes_total"] == 50


def test_the_doctor_finds_all_the_figures_that_it_judges_by(tier):
    assert doctor.report()["tier"]["figures"] == {}
    tier.blocks(11)
    pruned()
    assert doctor.report()["tier"]["figures"].keys() >= tiers.FIGURES.keys()


def test_a_damaged_line_costs_that_figure_only(tier):
    pruned()
    file = paths.HEALTH / "kv_tier.prom"
    file.write_text(file.read_text().replace("vllm_kv_tier_bytes 0", "vllm_kv_tier_bytes \ufffd"))
    shown = figures.read("kv_tier")
    assert "vllm_kv_tier_bytes" not in shown
    assert shown["vllm_kv_tier_quota_bytes"] == 100


def test_a_figure_is_read_as_it_was_written_however_small_or_large(tier):
    values = {"vllm_a_x": 2.5e-07, "vllm_a_y": 3e17, "vllm_a_z": 0.125}
    figures.write("a", [figures.Figure(n[-1], "gauge", "of it", v) for n, v in values.items()])
    assert figures.read("a") == values


def test_a_counter_that_is_large_goes_on(tier):
    large = figures.Figure("x_total", "counter", "of x", 3 * 10**17)
    figures.write("a", [large])
    figures.write("a", [large])
    assert f"vllm_a_x_total {6 * 10**17}\n" in (paths.HEALTH / "a.prom").read_text()


def test_under_wsl2_it_says_that_windows_gets_nothing_back(tier, monkeypatch):
    disk = tier.root / "Users/me/AppData/Local/wsl/{1}/ext4.vhdx"
    disk.parent.mkdir(parents=True)
    disk.write_bytes(b"")
    os.truncate(disk, 250 * 10**9)
    monkeypatch.setattr(windowsdisk, "USERS", tier.root / "Users")
    monkeypatch.setattr(platform, "release", lambda: "6.6.87-microsoft-standard-WSL2")
    tier.blocks(11)
    removed, windows = pruned()
    assert "removed 2 blocks" in removed
    assert f"250.0 GB in {disk}" in windows
    assert "all files take" in windows
    assert "Optimize-VHD" in windows
    assert len(pruned()) == 1
    monkeypatch.setattr(platform, "release", lambda: "6.1.0-18-amd64")
    tier.blocks(11)
    assert len(pruned()) == 1
