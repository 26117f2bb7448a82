"""A build that fails leaves nothing installed and the server as it was."""

import json

import pytest

from . import deploys

HOSTKIT = "python3 -IB /opt/vllm/hostkit"


@pytest.fixture
def inputs(deployed):
    """Inputs of a second release on the host, the same as the first's under another name."""
    (first,) = deploys.on_host("ls /opt/vllm/inputs", host=deployed).split()[:1]
    name = "0.31.0-0123456789ab"
    folder = f"/opt/vllm/inputs/{name}"
    deploys.on_host(
        f"rm -rf {folder}; cp -r /opt/vllm/inputs/{first} {folder} && "
        f"sed -i 's/{first}/{name}/' {folder}/spec.json",
        host=deployed,
    )
    yield folder
    deploys.on_host(f"rm -rf {folder} /opt/vllm/releases/{name}", host=deployed)


def build(host, folder):
    """Run the build by hand; returns its exit status and what it says."""
    output = deploys.on_host(
        f"{HOSTKIT} build-release {folder} 2>&1; echo status=$?", host=host, timeout_s=600
    )
    text, _, status = output.rpartition("status=")
    return int(status), text


@pytest.fixture
def untouched(deployed):
    """The server is the same afterwards, and of the failed release nothing is left."""
    before = deploys.hostkit_state(deployed)
    yield
    assert deploys.hostkit_state(deployed) == before
    left = deploys.on_host(
        "ls /opt/vllm/releases; ls -A /opt/vllm/work 2>/dev/null; true", host=deployed
    ).split()
    assert "0.31.0-0123456789ab" not in left
    assert len(left) == 1


def test_a_patch_that_does_not_apply_stops_the_build(deployed, inputs, untouched):
    patch = f"{inputs}/patches/0001-kv-fs-tier-touch-on-load.patch"
    deploys.on_host(f"sed -i 's/^ def batch_store_block/ def keep_block/' {patch}", host=deployed)
    status, said = build(deployed, inputs)
    assert status == 1
    assert "0001-kv-fs-tier-touch-on-load.patch: FAIL" in said
    assert "nothing was installed" in said


def test_a_wheel_with_another_hash_is_refused(deployed, inputs, untouched):
    deploys.on_host(f"sed -i 's/sha256:..../sha256:0000/' {inputs}/wheel.txt", host=deployed)
    status, said = build(deployed, inputs)
    assert status == 1
    assert "hash" in said.lower()


def test_a_full_disk_is_named_and_leaves_nothing(deployed, inputs, untouched):
    deploys.on_host(
        "mkdir -p /opt/vllm/work && mount -t tmpfs -o size=30m tmpfs /opt/vllm/work", host=deployed
    )
    try:
        status, said = build(deployed, inputs)
    finally:
        deploys.on_host("umount /opt/vllm/work", host=deployed)
    assert status == 1
    assert "No space left on device" in said
    assert "Traceback" not in said


def test_a_library_that_is_missing_stops_the_build(deployed, inputs, untouched):
    """vLLM itself only warns of it, and then dies at every start."""
    library = deploys.on_host("readlink -f /usr/lib/x86_64-linux-gnu/libnuma.so.1", host=deployed)
    deploys.on_host(f"mv {library} {library}.away", host=deployed)
    try:
        status, said = build(deployed, inputs)
    finally:
        deploys.on_host(f"mv {library}.away {library}", host=deployed)
    assert status == 1
    assert "libnuma.so.1" in said
    assert "libnuma1" in said


def test_the_release_lists_every_compiled_module(deployed):
    manifest = json.loads(
        deploys.on_host("cat /opt/vllm/current/release/manifest.json", host=deployed)
    )
    found = deploys.on_host(
        "cd /opt/vllm/current/release/venv/lib/python3*/site-packages && "
        "find vllm -name '*.so' | sort",
        host=deployed,
    )
    modules = manifest["modules"]
    assert sorted([*modules["loaded"], *modules["skipped"]]) == found.split()
    assert "vllm/_C.abi3.so" in modules["loaded"]
