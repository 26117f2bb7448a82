"""The real engine from one version to the next and back, with a setting that only the newer knows.

Part of `make campaign`.
"""

import json

import pytest

from . import deploys

OLDER, NEWER = "0.30.0", "0.31.0"
ONLY_NEWER = ("--data", 'extra_serve_args={"enforce-eager": true, "max-num-active-seqs": 2}')

pytestmark = pytest.mark.campaign


def upgrade(host, version, *data):
    return deploys.pyinfra(
        *("tasks/upgrade_vllm.py", "-y", "--data", f"vllm_version={version}"), *data, host=host
    )


def serves(host):
    """The version that answers, and the flags it was started with."""
    assert "Paris" in deploys.ask("What is the capital of France?", host=host)
    version = json.loads(deploys.request(host, "/version")[1])["version"]
    return version.partition("+")[0], deploys.on_host("cat /opt/vllm/current/serve.yaml", host=host)


def test_a_newer_version_with_a_setting_that_only_it_knows_and_back_again(deployed):
    done = upgrade(deployed, OLDER)
    assert done.returncode == 0, done.stderr[-4000:]
    assert serves(deployed)[0] == OLDER
    older = deploys.hostkit_state(deployed)

    refused = upgrade(deployed, OLDER, *ONLY_NEWER)
    assert refused.returncode != 0
    assert "max-num-active-seqs" in refused.stdout + refused.stderr
    assert deploys.hostkit_state(deployed)["invocation"] == older["invocation"]

    done = upgrade(deployed, NEWER, *ONLY_NEWER)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"vLLM: {OLDER} -> {NEWER}" in done.stderr
    assert "flags: + max-num-active-seqs: 2" in done.stderr
    version, flags = serves(deployed)
    assert version == NEWER
    assert "max-num-active-seqs: 2" in flags

    back = deploys.pyinfra("tasks/rollback_vllm.py", "-y", host=deployed)
    assert back.returncode == 0, back.stderr[-4000:]
    version, flags = serves(deployed)
    assert version == OLDER
    assert "max-num-active-seqs" not in flags
    assert deploys.hostkit_state(deployed)["running"] == older["running"]
