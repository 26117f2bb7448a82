"""KV offload copies by the GPU's address: real modules, with a CUDA runtime imitated."""

import pytest

from . import deploys
from .host import state

SCRIPT = state.REPOSITORY / "tests/gpu/host_pointers.py"
PYTHON = "/opt/vllm/current/release/venv/bin/python -IB"


@pytest.fixture(scope="module")
def run(deployed):
    deploys.on_host("cat >/srv/host_pointers.py", host=deployed, stdin=SCRIPT.read_text())
    return lambda mutant: deploys.on_host(
        f"{PYTHON} /srv/host_pointers.py imitated {mutant} 2>&1; echo exit $?", host=deployed
    )


def test_every_byte_arrives_where_host_and_gpu_address_differ(run):
    output = run("")
    assert output.endswith("exit 0"), output[-4000:]
    assert "Ran 11 tests" in output


@pytest.mark.parametrize("mutant", ["missing", "sign"])
def test_a_missing_or_reversed_difference_is_noticed(run, mutant):
    output = run(mutant)
    assert output.endswith("exit 1")
    assert "errors=5" in output, output[-4000:]
