"""What another version of vLLM needs: its series and the difference of what it can be told."""

import shutil
from pathlib import Path

import pytest

from maintenance import flags, new_version
from tasks.shared import patches
from tests.unit import standin_vllm as standin
from tests.unit.standin_vllm import SCHEDULER, sha256

PATCHED = SCHEDULER.replace("line_20 = 20", "line_20 = 'patched'")
SERIES = """\
[[patch]]
name = "0001-a.patch"
title = "a"
upstream = "none: our own"
why = "with \\"quotes\\""
until = ""

[patch.files."vllm/scheduler.py"]
before = "{before}"
after = "{after}"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A version 1.0.0 with a series of one patch."""
    series = tmp_path / "patches/vllm-1.0.0"
    series.mkdir(parents=True)
    text = standin.diff({"vllm/scheduler.py": (SCHEDULER, PATCHED)}, tmp_path / "diff")
    (series / "0001-a.patch").write_text(f"Subject: why\n\n---\n{text}")
    hashes = {"before": sha256(SCHEDULER), "after": sha256(PATCHED)}
    (series / "series.toml").write_text(SERIES.format(**hashes))
    monkeypatch.setattr(patches, "PATCHES", tmp_path / "patches")
    return tmp_path


def tree(folder, text):
    root = folder / "tree"
    (root / "vllm").mkdir(parents=True)
    (root / "vllm/scheduler.py").write_text(text)
    return root


def test_a_patch_that_applies_is_made_anew_for_the_new_sources(folder):
    moved = f"# a line above\n{SCHEDULER}"
    root = tree(folder, moved)
    (tried,) = new_version.try_series(root, "1.0.0")
    assert tried.state == new_version.APPLIES
    new_version.write_series("1.1.0", [tried])
    (patch,) = patches.series("1.1.0")
    assert patch.why == 'with "quotes"'
    assert patch.files["vllm/scheduler.py"].before == sha256(moved)
    text = (folder / "patches/vllm-1.1.0/0001-a.patch").read_text()
    assert text.startswith("Subject: why\n")

    shutil.rmtree(root)
    again = tree(folder, moved)
    patched = new_version.try_patch(again, patch, folder / "patches/vllm-1.1.0/0001-a.patch")
    assert patched.state == new_version.APPLIES
    assert "'patched'" in (again / "vllm/scheduler.py").read_text()


def test_a_patch_that_is_merged_upstream_is_left_out(folder):
    (tried,) = new_version.try_series(tree(folder, PATCHED), "1.0.0")
    assert tried.state == new_version.MERGED
    new_version.write_series("1.1.0", [tried])
    assert patches.series("1.1.0") == []


def test_a_patch_that_conflicts_is_named_with_the_reason_and_the_tree_stays(folder):
    other = SCHEDULER.replace("line_20 = 20", "line_20 = 21")
    root = tree(folder, other)
    (tried,) = new_version.try_series(root, "1.0.0")
    assert tried.state == new_version.CONFLICTS
    assert "vllm/scheduler.py" in tried.reason
    assert (root / "vllm/scheduler.py").read_text() == other
    assert "0001-a.patch does not fit" in new_version.conflicts([tried])[0]


def test_the_base_is_the_newest_older_version(folder):
    shutil.copytree(folder / "patches/vllm-1.0.0", folder / "patches/vllm-0.9.1")
    assert new_version.newest_before("1.1.0") == "1.0.0"
    assert new_version.newest_before("1.0.0") == "0.9.1"
    with pytest.raises(ValueError, match="older than every version"):
        new_version.newest_before("0.9.0")


@pytest.mark.parametrize("version", ["", "main", "0.32", "0.32.0rc1"])
def test_what_is_no_version_is_refused(version, capsys):
    assert new_version.main([version]) == 1
    assert "expected a version" in capsys.readouterr().err


ARGUMENTS = """
class EngineArgs:
    model: str
    max_num_seqs: int | None = None
    {more}
    method: int = 1
class Other:
    unrelated: int = 1
"""


def surface(folder: Path, more: str, default: str, variable: str) -> flags.Surface:
    texts = {
        "vllm/engine/arg_utils.py": ARGUMENTS.format(more=more),
        "vllm/config/cache.py": f"class CacheConfig:\n    block_size: int = {default}\n",
        "vllm/envs.py": f"if TYPE_CHECKING:\n    {variable}: int = 1\n",
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return flags.read(folder)


def test_what_came_went_and_changed_is_listed(tmp_path):
    before = surface(tmp_path / "a", "swap_space: int = 4", "16", "VLLM_OLD")
    after = surface(tmp_path / "b", "enable_x: bool = False", "32", "VLLM_NEW")
    assert flags.differences(before, after) == [
        "+ flag --enable-x = False",
        "- flag --swap-space (was 4)",
        "~ default CacheConfig.block_size: 16 -> 32",
        "+ variable VLLM_NEW = 1",
        "- variable VLLM_OLD (was 1)",
    ]
    assert flags.differences(before, before) == []


def test_sources_without_flags_are_refused(tmp_path):
    with pytest.raises(ValueError, match="has vLLM moved them"):
        flags.read(tmp_path)
