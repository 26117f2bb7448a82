"""A patch series and its folder agree, or nothing is built."""

import re
import shutil

import pytest

from tasks.shared.release import patches, releases


@pytest.mark.parametrize("version", releases.versions())
def test_every_version_has_a_series_that_reads(version):
    for patch in patches.series(version):
        assert patch.title
        assert patch.why
        for file in patch.files:
            text = (patches.PATCHES / f"vllm-{version}" / patch.name).read_text(encoding="utf-8")
            assert f"b/{file}" in text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    shutil.copytree(patches.PATCHES / "vllm-0.31.0", tmp_path / "vllm-0.31.0")
    monkeypatch.setattr(patches, "PATCHES", tmp_path)
    return tmp_path / "vllm-0.31.0"


def test_a_patch_that_is_not_listed_is_refused(folder):
    assert patches.series("0.31.0")
    (folder / "0099-stray.patch").write_text("")
    with pytest.raises(ValueError, match="0099-stray"):
        patches.series("0.31.0")


def test_a_listed_patch_that_is_not_there_is_refused(folder):
    next(folder.glob("*.patch")).unlink()
    with pytest.raises(ValueError, match="listed once"):
        patches.series("0.31.0")


def test_a_version_without_a_series_is_refused(folder):
    with pytest.raises(ValueError, match=r"make new-version V=0\.30\.0"):
        patches.series("0.30.0")


@pytest.mark.parametrize(
    ("until", "refused"), [("0.31.0", True), ("0.9.0", True), ("0.32.0", False)]
)
def test_a_patch_that_upstream_has_merged_must_be_taken_out(folder, until, refused):
    listing = folder / "series.toml"
    listing.write_text(listing.read_text().replace('until = ""', f'until = "{until}"', 1))
    if refused:
        with pytest.raises(ValueError, match="remove it"):
            patches.series("0.31.0")
    else:
        assert patches.series("0.31.0")


@pytest.mark.parametrize("key", ["title", "upstream", "why"])
def test_a_patch_without_a_word_on_where_it_comes_from_and_why_is_refused(folder, key):
    listing = folder / "series.toml"
    listing.write_text(re.sub(rf'^{key} = ".*"', f'{key} = " "', listing.read_text(), flags=re.M))
    with pytest.raises(ValueError, match=key):
        patches.series("0.31.0")
