"""A packed ternary model on the real engine's CPU build. On a GPU: tests/gpu/test_weights.py."""

import json

import pytest

from . import deploys
from .host import state

PROGRAMS = ("tests/gpu/ternary/twins.py", "files/hostkit/scripts/ternary.py")


@pytest.mark.campaign
def test_a_packed_ternary_model_answers_like_its_bfloat16_twin(deployed):
    """Three engines in turn. int4 only: the CPU build has no kernel for two bits."""
    for program in PROGRAMS:
        deploys.on_host(
            f"install -d /srv/twins/{program.rpartition('/')[0]} && cat >/srv/twins/{program}",
            host=deployed,
            stdin=(state.REPOSITORY / program).read_text(),
        )
    said = deploys.on_host(
        "cd /srv/twins && HOME=/srv/twins HF_HUB_OFFLINE=1 VLLM_LOGGING_LEVEL=ERROR "
        f"/opt/vllm/current/release/venv/bin/python {PROGRAMS[0]} models 2>log || tail -5 log",
        host=deployed,
        timeout_s=1200,
    )
    found = json.loads(said.splitlines()[-1])
    assert found["distance"]["int4"] < found["distance"]["flipped"] / 10
    assert found["same_greedy_texts"]["int4"] == 4
