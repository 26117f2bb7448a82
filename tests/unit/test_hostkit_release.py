"""Building a release whole or not at all: real git, pip, uv and wheel, on a stand-in for vLLM."""

import fcntl
import os
import shutil
import signal
import subprocess
import time

import pytest

from tests.unit import standin_vllm as standin
from tests.unit.standin_host import INSTALLED, NAME, PATCHED, check, refused
from tests.unit.standin_vllm import sha256


def test_a_build_gives_a_vllm_that_names_its_release(built):
    command = [built.release / "venv/bin/python", "-c", standin.MAIN + "main()"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.strip() == INSTALLED
    assert (built.site() / "vllm/scheduler.py").read_text() == PATCHED
    assert (built.site() / "standin_dep.py").exists()


def test_the_manifest_says_what_the_release_was_made_of(built):
    manifest = built.manifest()
    assert manifest["name"] == NAME
    assert manifest["vllm"] == INSTALLED
    assert manifest["wheel"]["sha256"] == sha256((built.links / standin.FILENAME).read_bytes())
    (patch,) = manifest["patches"]
    assert (patch["name"], patch["state"]) == ("0001-a.patch", "applied")
    assert patch["files"]["vllm/scheduler.py"]["after"] == sha256(PATCHED)
    assert manifest["drop_requirements"] == ["torchvision"]
    assert manifest["inputs"]["lock.txt"] == sha256((built.inputs / "lock.txt").read_bytes())
    assert "patches/0001-a.patch" in manifest["inputs"]
    assert "standin-dep==1.0" in manifest["packages"]
    assert manifest["modules"] == {"loaded": ["vllm/_standin_C.abi3.so"], "skipped": {}}


def test_everyone_can_read_a_release_and_nothing_else_is_left(built):
    for path in built.release.rglob("*"):
        mode = path.stat().st_mode
        assert mode & 0o004, path
        assert mode & 0o001 or not path.is_dir(), path
    assert built.leftovers() == [NAME]


def test_a_second_build_changes_nothing_and_says_so(own):
    before = {path: path.lstat().st_mtime_ns for path in own.root.rglob("*")}
    done = own.build()
    assert (done.returncode, done.stdout) == (0, f"release {NAME}: already built\n")
    assert {path: path.lstat().st_mtime_ns for path in own.root.rglob("*")} == before


def test_a_patch_that_does_not_fit_installs_nothing(host):
    host.add_patch("something else\n", PATCHED)
    line = refused(host.build())
    assert line.startswith("nothing was installed: patch 0001-a.patch: FAIL: vllm/scheduler.py has")
    assert host.leftovers() == []


def test_a_patch_that_is_merged_upstream_is_recorded_as_present(host):
    files = standin.vllm_files() | {"vllm/scheduler.py": PATCHED.encode()}
    wheel = standin.write_wheel(host.links / standin.FILENAME, files)
    host.pin("wheel.txt", "vllm-standin==1.2.3", wheel)
    assert host.build().returncode == 0
    assert host.manifest()["patches"][0]["state"] == "already present"


def test_a_changed_download_is_refused(host):
    standin.write_wheel(host.links / standin.FILENAME, standin.vllm_files() | {"vllm/x.py": b""})
    assert refused(host.build()).startswith("download the wheel: ")
    assert host.leftovers() == []


def test_a_missing_download_is_refused_and_found_the_next_time(host):
    wheel = host.links / standin.FILENAME
    aside = wheel.rename(host.folder / "aside.whl")
    assert "vllm-standin==1.2.3" in refused(host.build())
    aside.rename(wheel)
    assert host.build().returncode == 0


def test_a_byte_changed_in_the_download_cache_is_not_installed(own):
    (kept,) = (own.root / "opt/vllm/cache/downloads/wheels").rglob("*.whl")
    data = bytearray(kept.read_bytes())
    data[len(data) // 2] ^= 1
    kept.write_bytes(data)
    shutil.rmtree(own.release)
    done = own.build()
    assert done.returncode == 0, done.stderr
    assert sha256(kept.read_bytes()) == own.manifest()["wheel"]["sha256"]


def test_a_dependency_with_another_hash_is_refused(host):
    lock = host.inputs / "lock.txt"
    lock.write_text(f"standin-dep==1.0 --hash=sha256:{'0' * 64}\n")
    assert refused(host.build()).startswith("uv pip install: ")
    assert host.leftovers() == []


def test_a_dependency_that_the_lock_lacks_is_refused(host):
    (host.inputs / "lock.txt").write_text("# nothing\n")
    line = refused(host.build())
    assert line.startswith("uv pip check: ")
    assert "standin-dep" in line
    assert host.leftovers() == []


def test_a_compiled_module_that_does_not_load_is_refused(host):
    files = standin.vllm_files() | {"vllm/_bad_C.abi3.so": b"\x7fELF"}
    wheel = standin.write_wheel(host.links / standin.FILENAME, files)
    host.pin("wheel.txt", "vllm-standin==1.2.3", wheel)
    assert refused(host.build()).startswith("vllm/_bad_C.abi3.so: ")
    assert host.leftovers() == []


def test_a_file_torn_in_uvs_cache_is_fetched_anew(own):
    shutil.rmtree(own.release)
    (cached,) = (own.root / "opt/vllm/cache/downloads/uv").rglob("standin_dep.py")
    cached.write_text("torn = True\n")
    done = own.build()
    assert "standin_dep not as packed: download again" in done.stdout
    assert done.returncode == 0, done.stderr
    assert (own.site() / "standin_dep.py").read_bytes() == b""
    assert own.manifest()["misrecorded"] == {}


def test_a_package_that_is_published_with_a_wrong_record_is_accepted_as_it_came(host):
    files = standin.dependency_files()
    path = host.links / "standin_dep-1.0-py3-none-any.whl"
    standin.write_wheel(path, files, altered={"standin_dep.py": b"other = 1\n"})
    host.pin("lock.txt", "standin-dep==1.0", path)
    assert host.build().returncode == 0
    assert list(host.manifest()["misrecorded"]) == ["standin_dep.py"]
    assert check(host, "--deep")[0] == 0

    host.spec["name"] = "1.2.3-bbbbbbbbbbbb"
    again = host.build()
    assert (again.returncode, "download again" in again.stdout) == (0, False)

    (host.site() / "standin_dep.py").unlink()
    (host.site() / "standin_dep.py").write_text("changed = 1\n")
    assert check(host, "--deep")[0] == 1


def test_a_release_without_a_manifest_is_built_again(own):
    (own.release / "manifest.json").unlink()
    (own.release / "stray").write_text("left over")
    assert own.build().returncode == 0
    assert not (own.release / "stray").exists()
    assert own.manifest()["name"] == NAME


def test_a_name_that_was_used_for_other_inputs_is_refused(own):
    with (own.inputs / "lock.txt").open("a") as lock:
        lock.write("# changed\n")
    assert f"release {NAME} was built of another lock.txt" in refused(own.build())


def test_other_places_to_download_from_do_not_matter_to_a_built_release(own):
    own.spec["find_links"] = ["/nowhere"]
    assert own.build().stdout == f"release {NAME}: already built\n"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"name": "../evil"}, "name '../evil': expected <version>-<12 hex digits>"),
        ({"accelerator": "tpu"}, "accelerator 'tpu': expected cpu or cuda"),
        ({"patches": []}, "patches and the folder patches/ differ: 0001-a.patch"),
        ({"drop_requirements": ["torchvison"]}, "torchvison: the wheel does not require it"),
        ({"python": "/no/python3"}, "/no/python3"),
    ],
)
def test_inputs_that_contradict_themselves_are_refused(host, changed, told):
    host.spec |= changed
    assert told in refused(host.build())
    assert host.leftovers() == []


@pytest.mark.parametrize("missing", ["wheel.txt", "lock.txt", "tools.txt"])
def test_a_missing_input_is_named(host, missing):
    (host.inputs / missing).unlink()
    assert f"{missing}: no such file" in refused(host.build())


@pytest.mark.parametrize("after", ["download:", "patch:", "install:", "check:", "probe:"])
def test_killed_at_any_step_and_run_again_it_converges(host, after):
    build = host.start()
    assert build.stdout
    for line in build.stdout:
        if line.startswith(after):
            build.send_signal(signal.SIGKILL)
            break
    assert build.wait() == -signal.SIGKILL
    assert not (host.release / "manifest.json").exists()
    done = host.build()
    assert done.returncode == 0, done.stderr
    assert host.leftovers() == [NAME]
    assert host.run("check-release", NAME, "--deep").returncode == 0


def test_of_two_builders_the_second_waits_and_finds_the_release_built(host):
    host.releases.mkdir(parents=True)
    with (host.releases / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        builds = [host.start(), host.start()]
        for build in builds:
            assert build.stdout
            assert "waiting: another build" in build.stdout.readline()
    ends = [build.communicate()[0].splitlines()[-1] for build in builds]
    assert [build.returncode for build in builds] == [0, 0]
    assert sum(end.endswith("already built") for end in ends) == 1


def test_what_a_killed_builder_left_running_keeps_the_next_one_waiting(host):
    """A child that outlives its builder must not write into the next one's folders."""
    (pip,) = host.root.glob("opt/vllm/tools/*/bin/pip")
    real = pip.read_text()
    pip.write_text("#!/bin/sh\necho $$ > $0.pid\nexec sleep 600\n")
    first = host.start()
    pid_file = pip.with_name("pip.pid")
    while not (pid_file.exists() and pid_file.read_text()):
        time.sleep(0.01)
    first.kill()
    first.wait()
    pip.write_text(real)
    second = host.start()
    assert second.stdout
    assert "waiting: another build" in second.stdout.readline()
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    second.communicate()
    assert second.returncode == 0
