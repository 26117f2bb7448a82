"""Patches by URL: what they are known by, where they are kept, which route they need."""

import json
from pathlib import Path

import pytest
import requests

from maintenance import pin_patch
from tasks.shared.release import patches
from tests.unit import standin_vllm as standin

COMMIT = "0123456789abcdef0123456789abcdef01234567"
URL = f"https://example.invalid/vllm/commit/{COMMIT}.patch"
KERNEL = "".join(f"int kernel_{number};\n" for number in range(1, 9))


@pytest.fixture
def text(tmp_path):
    """A patch as a server sends it."""
    changed = KERNEL.replace("int kernel_3;", "int kernel_three;")
    hunks = standin.diff({"csrc/kernel.cpp": (KERNEL, changed)}, tmp_path / "diff")
    return f"From {COMMIT} Mon Sep 17 00:00:00 2001\nSubject: faster\n---\n{hunks}-- \n2.43.0\n\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder that keeps pinned patches, and a network that fails."""

    def refuse(url, timeout):
        raise requests.ConnectionError(url)

    monkeypatch.setattr(patches, "PINNED", tmp_path / "pinned")
    monkeypatch.setattr(requests, "get", refuse)
    return tmp_path / "pinned"


def entry(text, **changes):
    files = {"csrc/kernel.cpp": {"before": "a" * 64, "after": "b" * 64}}
    told = {"url": URL, "vllm_version": "0.31.0", "why": "speed", "files": files}
    return told | {"hunks_sha256": patches.hunks_sha256(text)} | changes


def serve(monkeypatch, text):
    class Answer:
        content = text.encode()

        def raise_for_status(self):
            pass

    monkeypatch.setattr(requests, "get", lambda url, timeout: Answer())


def test_a_patch_that_is_served_in_other_words_is_the_same(text):
    other = text.replace("index ", "index 00", 1).replace("2.43.0", "2.50.1")
    other = other.replace("Subject: faster", "Subject: [PATCH] faster")
    assert other != text
    assert patches.hunks_sha256(other) == patches.hunks_sha256(text)


@pytest.mark.parametrize(("old", "new"), [("kernel_three", "kernel_four"), ("kernel.cpp", "k.cpp")])
def test_a_patch_that_does_something_else_is_another(text, old, new):
    assert patches.hunks_sha256(text.replace(old, new)) != patches.hunks_sha256(text)


@pytest.mark.parametrize("page", ["", "<html>rate limit</html>", "Subject: x\n\n---\n"])
def test_a_page_that_is_no_patch_is_refused(page):
    with pytest.raises(ValueError, match="not a patch"):
        patches.hunks_sha256(page)


def test_a_pinned_patch_is_fetched_once_and_kept(text, folder, monkeypatch):
    pinned = patches.PinnedPatch.model_validate(entry(text))
    serve(monkeypatch, text)
    assert patches.pinned_text(pinned) == text
    serve(monkeypatch, "another")
    assert patches.pinned_text(pinned) == text
    assert [file.name for file in folder.iterdir()] == [f"{COMMIT}.patch"]


def test_without_a_network_the_error_says_which_file_to_put_where(text):
    pinned = patches.PinnedPatch.model_validate(entry(text))
    with pytest.raises(ValueError, match=rf"save it as .*pinned/{COMMIT}\.patch"):
        patches.pinned_text(pinned)


def test_what_is_fetched_and_is_another_patch_is_refused_and_not_kept(text, folder, monkeypatch):
    pinned = patches.PinnedPatch.model_validate(entry(text))
    serve(monkeypatch, text.replace("kernel_three", "kernel_four"))
    with pytest.raises(ValueError, match="pinned are"):
        patches.pinned_text(pinned)
    assert not folder.exists()


def test_a_kept_file_that_was_changed_is_refused(text, folder):
    folder.mkdir()
    (folder / f"{COMMIT}.patch").write_text(text.replace("kernel_three", "kernel_four"))
    with pytest.raises(ValueError, match="its hunks have sha256"):
        patches.pinned_text(patches.PinnedPatch.model_validate(entry(text)))


def test_a_patch_of_compiled_sources_makes_the_route_source(text, folder, make):
    folder.mkdir()
    (folder / f"{COMMIT}.patch").write_text(text)
    pinned = [entry(text)]
    assert patches.route("auto", patches.wanted(make(pinned_patches=pinned))) == "source"
    assert patches.route("auto", patches.wanted(make())) == "overlay"
    assert patches.route("source", patches.wanted(make())) == "source"
    with pytest.raises(ValueError, match=r"it touches csrc/kernel\.cpp"):
        make(pinned_patches=pinned, build_route="overlay")


def test_a_patch_that_is_pinned_for_another_version_is_refused(text, folder, make):
    with pytest.raises(ValueError, match=r"pinned for vLLM 0\.30\.0"):
        make(pinned_patches=[entry(text, vllm_version="0.30.0")])


FUSED = "0003-turboquant-fused-decode.patch"


def replacing(text, folder, **changes):
    """An entry for a patch that changes a file of the series."""
    folder.mkdir(exist_ok=True)
    (folder / f"{COMMIT}.patch").write_text(text)
    backend = {"vllm/v1/attention/backends/turboquant_attn.py": {"before": "a" * 64}}
    return entry(text, files=backend, **changes)


def test_a_patch_that_collides_with_the_series_is_refused_unless_it_replaces_that(
    text, folder, make
):
    with pytest.raises(ValueError, match=rf"both change \S+: say replaces = \['{FUSED}'\]"):
        make(pinned_patches=[replacing(text, folder)], turboquant_decode="stock")
    instead = replacing(text, folder, replaces=[FUSED])
    settings = make(pinned_patches=[instead], turboquant_decode="stock")
    names = [patch.name for patch in patches.wanted(settings)]
    assert FUSED not in names
    assert names[-1].startswith("9000-")
    assert FUSED not in patches.texts(settings)


def test_the_fused_kernel_and_a_patch_in_its_place_are_not_both_possible(text, folder, make):
    instead = replacing(text, folder, replaces=[FUSED])
    with pytest.raises(ValueError, match=r"turboquant_decode = 'fused' needs the patch"):
        make(pinned_patches=[instead])
    assert make(pinned_patches=[instead], turboquant_decode="stock")


def test_only_a_patch_of_the_series_can_be_replaced(text, folder, make):
    with pytest.raises(ValueError, match=r"replaces names 0009-none\.patch"):
        make(pinned_patches=[replacing(text, folder, replaces=["0009-none.patch"])])


@pytest.mark.parametrize(
    "url",
    [
        "https://example.invalid/vllm/pull/53060.patch",
        "https://example.invalid/vllm/commit/main.patch",
        f"http://example.invalid/vllm/commit/{COMMIT}.patch",
    ],
)
def test_only_one_commit_can_be_pinned(text, url):
    with pytest.raises(ValueError, match="url"):
        patches.PinnedPatch.model_validate(entry(text, url=url))


@pytest.fixture
def github(tmp_path, monkeypatch):
    """An imitation of GitHub's repository: a local one with the tag v9.9.9, and a series for it."""
    from tests.unit.standin_source import commit

    repository = tmp_path / "github"
    (repository / "csrc").mkdir(parents=True)
    (repository / "csrc/kernel.cpp").write_text(KERNEL)
    commit(repository, tag="v9.9.9")
    series = tmp_path / "patches/vllm-9.9.9"
    series.mkdir(parents=True)
    (series / "series.toml").write_text("# none\n")
    monkeypatch.setattr(patches, "PATCHES", tmp_path / "patches")
    return str(repository)


def run_pin(*arguments):
    return pin_patch.main([URL, "9.9.9", *arguments])


def test_pin_patch_shows_tries_keeps_and_prints_an_entry(text, folder, github, monkeypatch, capsys):
    serve(monkeypatch, text)
    assert run_pin("--source", github) == 0
    said = capsys.readouterr().out
    assert "csrc/kernel.cpp | 2 +-" in said.replace("    ", " ").replace("  ", " ")
    assert "build from source, because of csrc/kernel.cpp" in said
    printed = json.loads(said[said.index("    {") :].rstrip().rstrip(","))
    pinned = patches.PinnedPatch.model_validate(printed)
    assert pinned.hunks_sha256 == patches.hunks_sha256(text)
    assert pinned.files["csrc/kernel.cpp"].before == standin.sha256(KERNEL)
    assert (folder / f"{COMMIT}.patch").read_text() == text


def test_pin_patch_takes_a_file_that_was_saved_by_other_means(text, github, tmp_path, capsys):
    (tmp_path / "saved.patch").write_text(text)
    assert run_pin("--source", github) == 1
    assert "save it as" in capsys.readouterr().err
    assert run_pin("--source", github, "--file", str(tmp_path / "saved.patch")) == 0


def test_pin_patch_refuses_what_does_not_fit_and_keeps_nothing(
    text, folder, github, monkeypatch, capsys
):
    serve(monkeypatch, text.replace(" int kernel_2;", " int other_2;"))
    assert run_pin("--source", github) == 1
    assert "it does not fit: " in capsys.readouterr().err
    assert not folder.exists()


def test_the_slot_for_the_open_pull_request_says_why_it_is_empty():
    text = Path("group_data/all.py").read_text()
    slot = text[text.index("pinned_patches = ") : text.index("\n]\n")]
    assert "53060" in slot
    assert "because the pull request is open" in slot
