"""vLLM's real CUDA wheel becomes a patched one: all of it that needs neither GPU nor CUDA."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from tasks.shared.release import releases
from tasks.shared.settings import Settings
from tests.unit.conftest import values_of

from .host import borrowed, state

pytestmark = pytest.mark.campaign

SCRIPT = state.REPOSITORY / "tests/rehearsal/scripts/cuda_wheel.py"
HOSTKIT = state.REPOSITORY / "files/hostkit"


@pytest.fixture(scope="module")
def wanted():
    production = values_of("group_data/all.py")
    links = list(borrowed.find_links())
    return releases.wanted(Settings.model_validate(production | {"find_links": links}))


@pytest.fixture(scope="module")
def root(wanted, tmp_path_factory):
    """A folder that hostkit takes for /, with the release in it."""
    root = tmp_path_factory.mktemp("cuda")
    folder = root / "inputs" / wanted.name
    for name, text in wanted.inputs.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (folder / "lock.txt").write_text("# nothing: what vLLM depends on is gigabytes of CUDA\n")
    spec = json.loads((folder / "spec.json").read_text()) | {"python": sys.executable}
    (folder / "spec.json").write_text(json.dumps(spec))
    done = subprocess.run(
        [sys.executable, "-B", SCRIPT, folder],
        env=environment(root) | {"PYTHONPATH": str(HOSTKIT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    yield root
    # Gigabytes, which pytest would keep.
    shutil.rmtree(root)


def environment(root):
    return {**os.environ, "HOSTKIT_ROOT": str(root)}


def check(root, wanted):
    command = [sys.executable, "-IB", HOSTKIT, "check-release", wanted.name, "--deep"]
    done = subprocess.run(command, env=environment(root), capture_output=True, text=True)
    return done.returncode, done.stdout


def test_the_cuda_wheel_is_patched_packed_and_installed_whole(root, wanted):
    release = root / "opt/vllm/releases" / wanted.name
    manifest = json.loads((release / "manifest.json").read_text())
    print(json.dumps({key: manifest[key] for key in ("seconds", "memory", "wheel")}))
    assert {patch["state"] for patch in manifest["patches"]} == {"applied"}
    (site,) = release.glob("venv/lib/python3*/site-packages")
    (info,) = site.glob("vllm-*.dist-info")
    metadata = (info / "METADATA").read_text("utf-8")
    assert re.search(r"^Name: vllm$", metadata, re.M)
    assert f"\nVersion: {wanted.installed_version}\n" in metadata
    assert re.search(r"^Requires-Dist: torch==", metadata, re.M)

    (original,) = root.glob("opt/vllm/cache/downloads/wheels/*/*.whl")
    patched = {path for patch in manifest["patches"] for path in patch["files"]}
    before, after = records(original, site, info)
    different = {path for path in before if before[path] != after.get(path)}
    # vLLM's own version names the release.
    assert different == (patched & before.keys()) | {"vllm/_version.py"}
    assert set(after) - set(before) == patched - before.keys()
    assert "vllm/_C_stable_libtorch.abi3.so" in after
    assert check(root, wanted) == (0, f"release {wanted.name}: intact\n")


def records(original, site, info):
    """Path to digest of the files of vLLM, in the wheel as it came and as it is installed."""
    with zipfile.ZipFile(original) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/RECORD"))
        old = archive.read(name).decode("utf-8")
    new = (info / "RECORD").read_text("utf-8")
    return tuple(
        {row[0]: row[1] for row in csv.reader(io.StringIO(text)) if row and row[0][:5] == "vllm/"}
        for text in (old, re.sub(r"^.*__pycache__.*\n", "", new, flags=re.M))
    )


def test_a_bit_that_flips_in_a_compiled_module_is_found(root, wanted):
    (site,) = (root / "opt/vllm/releases" / wanted.name).glob("venv/lib/python3*/site-packages")
    module = max(site.glob("vllm/*.so"), key=lambda file: file.stat().st_size)
    with module.open("r+b") as file:
        file.seek(-1000, os.SEEK_END)
        byte = file.read(1)
        file.seek(-1000, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))
    status, said = check(root, wanted)
    assert status == 1
    assert f"vllm/{module.name} of vllm-" in said
