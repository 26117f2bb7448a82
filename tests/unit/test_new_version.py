"""What another version of vLLM needs: its series and the difference of what it can be told."""

import shutil
from pathlib import Path

import pytest

from maintenance import flags, manifest, new_version
from tasks.shared.engine import compat
from tasks.shared.release import patches
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
FRONTEND = """
class FrontendArgs:
    port: int = 8000
    _hidden: int = 1
def make_arg_parser(parser):
    parser.add_argument("--headless", action="store_true", default=False)
    parser.add_argument("model_tag")
"""
VARIABLES = """
if TYPE_CHECKING:
    {name}: int = 1
    A_CONSTANT: int = 2
environment_variables: dict[str, Callable[[], Any]] = {{"{name}": lambda: 1}}
"""


def surface(folder: Path, more: str, default: str, variable: str) -> flags.Surface:
    texts = {
        "vllm/engine/arg_utils.py": ARGUMENTS.format(more=more),
        "vllm/entrypoints/launchers/cli_args.py": FRONTEND,
        "vllm/config/cache.py": f"class CacheConfig:\n    block_size: int = {default}\n",
        "vllm/envs.py": VARIABLES.format(name=variable),
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return flags.read(folder)


def test_what_came_went_and_changed_is_listed(tmp_path):
    before = surface(tmp_path / "a", "swap_space: int = 4", "16", "VLLM_OLD")
    after = surface(tmp_path / "b", "enable_x: bool = False", "32", "VLLM_NEW")
    assert [change.line for change in flags.changes(before, after)] == [
        "+ flag --enable-x = False",
        "- flag --swap-space (was 4)",
        "~ default CacheConfig.block_size: 16 -> 32",
        "+ variable VLLM_NEW = 1",
        "- variable VLLM_OLD (was 1)",
    ]
    assert flags.changes(before, before) == []


def test_the_servers_own_flags_are_read_wherever_vllm_keeps_them(tmp_path):
    found = surface(tmp_path / "a", "", "16", "VLLM_X")
    assert {"port", "headless", "max-num-seqs"} <= found.flags.keys()
    assert not {"hidden", "-hidden", "model_tag"} & found.flags.keys()
    moved = tmp_path / "a/vllm/entrypoints/openai/cli_args.py"
    moved.parent.mkdir()
    (tmp_path / "a/vllm/entrypoints/launchers/cli_args.py").rename(moved)
    assert flags.read(tmp_path / "a") == found


@pytest.mark.parametrize(
    "place", ["engine/arg_utils.py", "entrypoints/launchers/cli_args.py", "envs.py"]
)
def test_sources_of_which_a_part_is_not_found_are_refused(tmp_path, place):
    surface(tmp_path, "", "16", "VLLM_X")
    (tmp_path / "vllm" / place).unlink()
    with pytest.raises(ValueError, match="has vLLM moved"):
        flags.read(tmp_path)


@pytest.fixture
def manifests(tmp_path, monkeypatch):
    """A folder of manifests with that of 1.0.0: one rule, four names."""
    folder = tmp_path / "compat"
    (folder / "vllm-1.0.0").mkdir(parents=True)
    (folder / "vllm-1.0.0/rules.toml").write_text(RULES)
    (folder / "vllm-1.0.0/names").write_text(NAMES)
    monkeypatch.setattr(compat, "MANIFESTS", folder)
    compat.manifest.cache_clear()
    yield folder
    compat.manifest.cache_clear()


RULES = """
[[rule]]
name = "a-rule"
when = { "swap-space.in" = 1, "env.VLLM_OLD" = { present = true } }
vllm = "accepts"
reason = "it is only a test"
source = "none"
refused = {}
passes = {}
"""
NAMES = "flag max-num-seqs\nflag port p\nflag swap-space\nenv VLLM_OLD\n"


@pytest.fixture
def changes(tmp_path):
    before = surface(tmp_path / "a", "swap_space: int = 4", "16", "VLLM_OLD")
    return flags.changes(
        before, surface(tmp_path / "b", "enable_x: bool = False", "32", "VLLM_NEW")
    )


def test_a_manifest_is_started_with_all_that_nobody_has_judged(manifests, changes):
    assert manifest.start("1.1.0", "1.0.0", changes)
    started = compat.manifest("1.1.0")
    assert list(started.rules) == ["a-rule"]
    assert (manifests / "vllm-1.1.0/names").read_text() == (
        "flag enable-x no-enable-x\nflag max-num-seqs\nflag port p\nenv VLLM_NEW\n"
    )
    left = [change.subject for change in manifest.unjudged(changes, started)]
    assert left == ["flag --enable-x", "default CacheConfig.block_size", "variable VLLM_NEW"]
    file = manifests / "vllm-1.1.0/changes.toml"
    assert all(f'    # "{subject}",  # ' in file.read_text() for subject in left)

    judged = file.read_text().replace('# "flag --enable-x"', '"flag --enable-x"')
    file.write_text(judged)
    compat.manifest.cache_clear()
    again = manifest.unjudged(changes, compat.manifest("1.1.0"))
    assert [change.subject for change in again] == left[1:]
    assert not manifest.start("1.1.0", "1.0.0", changes)
    assert file.read_text() == judged


def test_what_is_gone_and_still_used_is_named(manifests, changes):
    known = compat.manifest("1.0.0")
    assert manifest.broken(changes, known) == [
        "flag --swap-space is gone, and the rule a-rule of files/compat speaks of it",
        "variable VLLM_OLD is gone, and the rule a-rule of files/compat speaks of it",
    ]
    ours = flags.Change("flag", "max-num-seqs", "16", None)
    assert manifest.broken([ours], known) == [
        "flag --max-num-seqs is gone, and tasks/shared/engine/serving.py sets it"
    ]
    assert manifest.broken([flags.Change("flag", "max-num-seqs", "16", "8")], known) == []
