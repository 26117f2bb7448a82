"""What is kept of generations, releases and downloads, and what goes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostkit.generation import retention
from hostkit.host import mounts, paths

HOSTKIT = Path("files/hostkit").resolve()
NAMES = {n: f"1.2.{n}-00000000000{n}" for n in range(1, 6)}
NOTE = {"version": "1", "served_model_name": "m", "model_dir": "/m", "address": "a", "port": 1}


@pytest.fixture
def root(tmp_path):
    """Five releases, each with its generation, inputs, tools and download; the fourth serves."""
    opt = tmp_path / "opt/vllm"
    for number, name in NAMES.items():
        digest = str(number) * 64
        (opt / "releases" / name).mkdir(parents=True)
        manifest = {"built_at": f"2026-11-0{number}T00:00:00Z"}
        (opt / "releases" / name / "manifest.json").write_text(json.dumps(manifest))
        generation = opt / f"generations/{number}"
        generation.mkdir(parents=True)
        note = NOTE | {"digest": digest[:12], "release": name}
        (generation / "generation.json").write_text(json.dumps(note))
        (opt / "inputs" / name).mkdir(parents=True)
        (opt / "inputs" / name / "tools.txt").write_text("same for all")
        (opt / "inputs" / name / "wheel.txt").write_text(f"vllm==1 --hash=sha256:{digest}\n")
        (opt / "cache/downloads/wheels" / digest).mkdir(parents=True)
        (opt / "cache/built" / name).mkdir(parents=True)
    (opt / "current").symlink_to("generations/4")
    (opt / "previous").symlink_to("generations/2")
    return tmp_path


def prune(root, *options, generations=1, releases=1):
    counts = ["--generations", str(generations), "--releases", str(releases)]
    return subprocess.run(
        [sys.executable, "-IB", HOSTKIT, "retain", *counts, *options],
        env={**os.environ, "HOSTKIT_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )


def left(root, folder):
    return sorted(path.name for path in (root / "opt/vllm" / folder).iterdir())


@pytest.mark.parametrize("junk", [b"", b"\xff", b"[]"])
def test_a_release_whose_manifest_is_junk_is_left_to_the_next_build(root, junk):
    (root / "opt/vllm/releases" / NAMES[3] / "manifest.json").write_bytes(junk)
    done = prune(root)
    assert (done.returncode, done.stderr) == (0, "")
    assert NAMES[3] in left(root, "releases")
    assert NAMES[1] not in left(root, "releases")


def test_an_old_generation_that_the_settings_ask_for_stays(root):
    assert prune(root, "--wanted-digest", "1" * 12).returncode == 0
    assert left(root, "generations") == ["1", "2", "4", "5"]


def test_the_current_the_previous_and_the_newest_stay_with_all_they_need(root):
    assert prune(root).returncode == 0
    kept = [NAMES[2], NAMES[4], NAMES[5]]
    assert left(root, "generations") == ["2", "4", "5"]
    assert left(root, "releases") == kept
    assert left(root, "inputs") == kept
    assert left(root, "cache/built") == kept
    assert left(root, "cache/downloads/wheels") == [str(n) * 64 for n in (2, 4, 5)]


def test_a_second_run_has_nothing_to_do(root):
    prune(root)
    again = prune(root, "--dry-run")
    assert (again.returncode, again.stdout) == (0, "")


def test_a_dry_run_says_what_would_go_and_removes_nothing(root):
    done = prune(root, "--dry-run")
    assert done.returncode == 1
    assert f"would remove {root}/opt/vllm/releases/{NAMES[1]}" in done.stdout.splitlines()
    assert len(left(root, "releases")) == 5


def test_more_are_kept_when_told_to(root):
    prune(root, generations=4, releases=5)
    assert left(root, "generations") == ["2", "3", "4", "5"]
    assert left(root, "releases") == sorted(NAMES.values())


def test_a_wanted_release_that_no_generation_needs_yet_stays(root):
    prune(root, "--wanted", NAMES[1])
    assert NAMES[1] in left(root, "releases")
    assert NAMES[3] not in left(root, "releases")


@pytest.mark.parametrize("folder", ["inputs", "cache/built", "cache/downloads/wheels", "releases"])
def test_what_others_have_put_beside_ours_is_left_alone(root, folder):
    (root / "opt/vllm" / folder / "mine").mkdir()
    (root / "opt/vllm" / folder / NAMES[1].replace("1.2.1", "1.2.9")).write_text("a file")
    os.mkdir(os.fsencode(root / "opt/vllm" / folder) + b"/a\xff b\nc")
    done = prune(root)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"mine", "1.2.9-000000000001", "a\udcff b\nc"} <= {*left(root, folder)}
    assert NAMES[1] not in left(root, folder)


def test_an_unfinished_build_and_an_unfinished_download_are_left_alone(root):
    (root / "opt/vllm/releases/9.9.9-000000000009").mkdir()
    (root / "opt/vllm/cache/downloads/wheels/.abc").mkdir()
    prune(root)
    assert "9.9.9-000000000009" in left(root, "releases")
    assert ".abc" in left(root, "cache/downloads/wheels")


def test_a_release_that_a_process_runs_from_stays(root):
    program = root / "opt/vllm/releases" / NAMES[1] / "sleep"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    with subprocess.Popen([program, "60"]) as running:
        try:
            prune(root)
            assert NAMES[1] in left(root, "releases")
        finally:
            running.kill()
    prune(root)
    assert NAMES[1] not in left(root, "releases")


def test_an_empty_host_has_nothing_to_remove(tmp_path):
    assert prune(tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("number", "needed", "kept"),
    [(0, {1}, {1}), (2, set(), {3, 4}), (9, {1}, {1, 2, 3, 4}), (1, {4}, {4})],
)
def test_the_newest_and_the_needed_are_kept(number, needed, kept):
    assert retention.newest([1, 2, 3, 4], number, needed) == kept


def test_downloads_that_are_mounted_are_another_hosts_too(root, tmp_path, monkeypatch):
    """A folder of the same disk that is mounted in its place, for several hosts to share."""
    downloads = tmp_path / "opt/vllm/cache/downloads"
    table = tmp_path / "mountinfo"
    line = "541 539 254:0 /srv/shared {} rw,relatime - ext4 /dev/vda rw\n"
    monkeypatch.setattr(mounts, "MOUNTINFO", table)
    monkeypatch.setattr(paths, "DOWNLOADS", downloads)
    table.write_text(line.format(downloads))
    assert retention._downloads(set()) == []
    table.write_text(line.format(downloads / "wheels") + line.format(downloads.parent))
    assert len(retention._downloads(set())) == len(NAMES)


def test_what_a_removal_that_was_cut_off_left_goes_with_the_next(root):
    """Also with its manifest, by which it would count as a release; but nobody else's folder."""
    opt = root / "opt/vllm"
    gone = [f"releases/.removed-{NAMES[5]}", "generations/.removed-7", "tools/.removed-mine"]
    for name in gone:
        (opt / name).mkdir(parents=True)
    manifest = json.dumps({"built_at": "2026-11-09T00:00:00Z"})
    (opt / gone[0] / "manifest.json").write_text(manifest)
    assert prune(root, generations=5, releases=5).returncode == 0
    assert left(root, "releases") == sorted(NAMES.values())
    assert left(root, "generations") == ["1", "2", "3", "4", "5"]
    assert left(root, "tools") == [".removed-mine"]


def test_what_a_staging_that_died_left_goes_though_nothing_is_staged(root):
    (root / "opt/vllm/generations/candidate-0a1b2c3d").mkdir()
    assert "candidate" in prune(root, "--dry-run", generations=5, releases=5).stdout
    prune(root, generations=5, releases=5)
    assert left(root, "generations") == ["1", "2", "3", "4", "5"]
