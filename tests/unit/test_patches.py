"""A patch series and its folder agree, or nothing is built."""

import shutil

import pytest

from tasks.shared import patches, releases


@pytest.mark.parametrize("version", releases.versions())
def test_every_version_has_a_series_that_reads(version):
    for patch in patches.series(version):
        assert patch.title
        assert patch.why
        for file in patch.files:
            assert f"b/{file}" in patches.text(version, patch)


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


def test_a_version_without_a_series_has_no_patches(folder):
    assert patches.series("0.30.0") == []
