"""An upgrade of the real engine while it answers a request.

Part of `make campaign`.
"""

import json

import pytest

from . import deploys

TOKENS = 800

pytestmark = pytest.mark.campaign


def test_a_request_that_runs_when_an_upgrade_begins_is_answered_in_full(deployed):
    before = deploys.hostkit_state(deployed)
    client = deploys.start_long_request(deployed, TOKENS)
    done = deploys.pyinfra(
        *("tasks/upgrade_vllm.py", "-y", "--data", "max_num_seqs=3"),
        *("--data", "idle_wait_s=600", "--data", "quality_check=False"),
        host=deployed,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "s without a server" in done.stderr
    status, text = json.loads(client.communicate(timeout=60)[0])
    assert (status, json.loads(text)["usage"]["completion_tokens"]) == (200, TOKENS)
    now = deploys.hostkit_state(deployed)
    assert now["previous"] == before["running"]
    assert now["running"] > before["running"]
    assert "Paris" in deploys.ask("What is the capital of France?", host=deployed)
