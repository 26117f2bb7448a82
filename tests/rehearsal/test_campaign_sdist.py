"""vLLM's real source archive through the whole source route: unit, guard, progress, wheel, install.

VLLM_TARGET_DEVICE=empty builds it without kernels, so it installs and imports, and cannot serve.
"""

import json
import time

import pytest

from . import deploys
from .host import state

pytestmark = pytest.mark.campaign

HOSTKIT = "python3 -IB /opt/vllm/hostkit"
NAME = "0.31.0-0123456789cd"

# Turns the inputs of the release that serves into those of the same version, built from source.
_SPEC = f"""
import json, pathlib
file = pathlib.Path("/opt/vllm/inputs/{NAME}/spec.json")
spec = json.loads(file.read_text())
# The empty target asks for what vLLM needs everywhere, and for none of these.
spec |= dict(name="{NAME}", route="source", source="sdist", target_device="empty",
             installed_version="0.31.0+cpu.patched.empty", drop_requirements=[])
file.write_text(json.dumps(spec))
"""


@pytest.fixture
def inputs(deployed):
    first = deploys.on_host(
        "basename $(readlink -f /opt/vllm/current/release)", host=deployed
    ).strip()
    folder = f"/opt/vllm/inputs/{NAME}"
    deploys.on_host(f"rm -rf {folder}; cp -r /opt/vllm/inputs/{first} {folder}", host=deployed)
    for name in ("build.txt", "vllm-0.31.0.sdist.txt"):
        text = (state.REPOSITORY / "files/locks" / name).read_text()
        target = name.removeprefix("vllm-0.31.0.")
        deploys.on_host(f"cat > {folder}/{target}", host=deployed, stdin=text)
    deploys.on_host("python3 -", host=deployed, stdin=_SPEC)
    yield folder
    deploys.on_host(f"rm -rf {folder} /opt/vllm/releases/{NAME}", host=deployed)


def test_the_real_source_archive_becomes_a_release(deployed, inputs):
    before = deploys.hostkit_state(deployed)
    job = f"build-{NAME}"
    deploys.on_host(f"{HOSTKIT} job start {job} -- build-release {inputs}", host=deployed)
    seen = []
    while True:
        status = json.loads(deploys.on_host(f"{HOSTKIT} job status {job}", host=deployed))
        seen.append(status["progress"])
        if status["state"] != "running":
            break
        time.sleep(1)
    assert status["state"] == "succeeded", status
    manifest = json.loads(
        deploys.on_host(f"cat /opt/vllm/releases/{NAME}/manifest.json", host=deployed)
    )
    print(json.dumps({key: manifest[key] for key in ("seconds", "memory", "flags", "source")}))
    assert manifest["route"] == "source"
    assert {patch["state"] for patch in manifest["patches"]} == {"applied"}
    python = f"/opt/vllm/releases/{NAME}/venv/bin/python -I"
    said = deploys.on_host(f"{python} -c 'import vllm; print(vllm.__version__)'", host=deployed)
    assert said.endswith("0.31.0+cpu.patched.empty")
    assert any(text.startswith("compile") for text in seen)
    assert deploys.hostkit_state(deployed) == before
