"""The fused decode kernel in a release: exact in Triton's interpreter, and small enough for sm_120.

What it computes on a GPU, and how fast, tests/gpu/test_decode.py says.
"""

import pytest

from . import deploys
from .host import state

PYTHON = "/opt/vllm/current/release/venv/bin/python -B"


@pytest.fixture(scope="module")
def run(deployed):
    for name in ("decode_kernel.py", "decode_resources.py"):
        source = (state.REPOSITORY / "tests/gpu" / name).read_text(encoding="utf-8")
        deploys.on_host(f"cat >/srv/{name}", host=deployed, stdin=source)
    return lambda command: deploys.on_host(
        f"HOME=/tmp {PYTHON} /srv/{command} 2>&1; echo exit $?", host=deployed, timeout_s=600
    )


def test_the_interpreted_kernel_agrees_with_float64(run):
    output = run("decode_kernel.py small")
    assert output.endswith("exit 0"), output[-4000:]
    assert output.count("ok ") == 8


def test_the_kernel_spills_nothing_on_an_rtx_5070_and_fits_its_shared_memory(run):
    output = run("decode_resources.py 120")
    assert output.endswith("exit 0"), output[-4000:]
    assert output.count("ok ") == 3
