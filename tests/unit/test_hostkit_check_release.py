"""Is a release as it was built? Real tools on a stand-in for vLLM."""

import json
import shutil
import subprocess

import pytest

from tests.unit.standin_host import NAME, check, refused
from tests.unit.standin_vllm import SCHEDULER


def test_a_release_as_it_was_built_is_intact(built):
    assert check(built) == (0, f"release {NAME}: intact\n")
    assert check(built, "--deep") == (0, f"release {NAME}: intact\n")


def test_a_changed_file_is_found_by_the_deep_check_alone(own):
    (own.site() / "vllm/_custom_ops.py").unlink()
    (own.site() / "vllm/_custom_ops.py").write_text("changed = True\n")
    assert check(own)[0] == 0
    code, line = check(own, "--deep")
    assert code == 1
    assert "vllm/_custom_ops.py of vllm-1.2.3" in line


def test_a_changed_package_list_is_found_at_once_and_built_again(own):
    shutil.rmtree(next(own.site().glob("standin_dep-*.dist-info")))
    assert check(own) == (
        1,
        f"release {NAME}: damaged: standin_dep-1.0.dist-info/RECORD is not as it was installed\n",
    )
    assert own.build().returncode == 0
    assert check(own, "--deep")[0] == 0


def test_a_release_of_another_python_is_damaged(own):
    manifest = own.manifest() | {"python": "3.9.1"}
    (own.release / "manifest.json").write_text(json.dumps(manifest))
    code, line = check(own)
    assert code == 1
    assert "and was 3.9.1" in line


def test_a_module_that_is_gone_is_noticed_and_its_release_built_again(own):
    (own.site() / "vllm/scheduler.py").unlink()
    code, line = check(own)
    assert code == 1
    assert "vllm/scheduler.py of vllm-" in line
    assert own.build().returncode == 0
    assert check(own)[0] == 0


@pytest.mark.parametrize("junk", [b"", b"\xff\xfe", b"[]", b"{}"])
def test_a_release_whose_manifest_is_junk_is_built_again(own, junk):
    (own.release / "manifest.json").write_bytes(junk)
    code, line = check(own)
    assert code == 1
    assert "manifest.json" in line
    assert own.build().returncode == 0
    assert check(own)[0] == 0


def test_a_release_that_is_not_there_is_said_to_be(host):
    done = host.run("check-release", NAME)
    assert done.returncode == 1
    assert "manifest.json: No such file" in done.stdout


def test_a_damaged_release_is_not_removed_from_under_a_process(own):
    user = subprocess.Popen(
        [
            own.release / "venv/bin/python",
            "-c",
            f"import mmap, sys; f = open({str(own.site() / 'vllm/_standin_C.abi3.so')!r}, 'rb');"
            " m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print('mapped', flush=True);"
            " sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert user.stdout
    assert user.stdout.readline() == "mapped\n"
    shutil.rmtree(next(own.site().glob("standin_dep-*.dist-info")))
    line = refused(own.build())
    assert f"process {user.pid} runs from it: systemctl stop vllm.service" in line
    assert (own.release / "manifest.json").exists()
    user.communicate("")
    assert own.build().returncode == 0


def test_a_patched_file_that_lost_its_patch_is_noticed_without_hashing_everything(own):
    (own.site() / "vllm/scheduler.py").write_text(SCHEDULER)
    assert check(own) == (
        1,
        f"release {NAME}: damaged: vllm/scheduler.py is not as the patches left it\n",
    )
