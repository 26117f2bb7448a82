"""A prune goes through a tier twice, and the second time only where a block has to go."""

import os

import pytest

from hostkit.host import paths
from hostkit.kv import blocks
from tests.unit import kv_tier
from tests.unit.kv_tier import HOUR, NOW, pruned


@pytest.fixture
def tier(tmp_path, monkeypatch):
    return kv_tier.make(tmp_path, monkeypatch)


def test_only_folders_with_something_to_remove_are_gone_through_again(tier, monkeypatch):
    # Each in a folder of its own.
    files = [tier.block(f"{number:x}" * 64, number + 1) for number in range(11)]
    opened: list[str] = []
    real = os.open

    def counted(name, *arguments, **options):
        opened.append(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(os, "open", counted)
    pruned()
    assert tier.left() == set(files[:9])
    # Two folders of 13 share one of a million slots once in ten thousand runs.
    assert opened.count("00_g0") == 11 + 2


def test_folders_that_share_a_slot_lose_nothing_but_time(tier, monkeypatch):
    monkeypatch.setattr(blocks.Oldest, "_SLOTS", 1)
    files = tier.blocks(11)
    pruned()
    assert tier.left() == set(files[:9])


def test_a_block_from_before_1970_is_the_oldest(tier):
    files = tier.blocks(10)
    ancient = tier.block("f" * 64, NOW // HOUR + 100)
    pruned()
    assert ancient not in tier.left()
    assert set(files[:9]) == tier.left()


def test_what_is_left_is_told_by_its_oldest_block(tier):
    files = tier.blocks(11)
    pruned()
    oldest = int(files[8].stat().st_mtime) // 60 * 60
    assert (
        f"vllm_kv_tier_oldest_use_timestamp_seconds {oldest}"
        in (paths.HEALTH / "kv_tier.prom").read_text()
    )
