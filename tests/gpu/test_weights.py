"""Packed ternary weights, and vLLM's own check of the profile, on a real GPU."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.gpu import profile, record

TWINS = Path(__file__).with_name("ternary") / "twins.py"
ASK = profile.REPOSITORY / "files/hostkit/scripts/ask_vllm.py"


@pytest.mark.parametrize("architecture", ["llama", "qwen3_5"])
def test_a_packed_ternary_model_answers_like_its_bfloat16_twin(tmp_path, rank_model, architecture):
    """int4 runs through Marlin, int2 through Humming; a turned sign is far outside of both."""
    rendered = profile.render(profile.settings(rank_model, 8000))
    command = [profile.python(), str(TWINS), str(tmp_path / "models")]
    done = subprocess.run(
        [*command, "--architecture", architecture, "--bits", "4", "2", "--parallel", "4"],
        env=rendered.environment | {"VLLM_LOGGING_LEVEL": "ERROR"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.stdout.strip(), f"exit status {done.returncode}"
    found = json.loads(done.stdout.splitlines()[-1])
    record.record(f"ternary {architecture}", **found["distance"], same=found["same_greedy_texts"])
    assert done.returncode == 0, found


def used_mib():
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    if chosen := os.environ.get("CUDA_VISIBLE_DEVICES"):
        query.append(f"--id={chosen}")  # another test may be running on the others
    return [
        int(line) for line in subprocess.run(query, capture_output=True, text=True).stdout.split()
    ]


@pytest.mark.parametrize(
    ("spoil", "verdict", "reason"),
    [
        (lambda text: text, "accepted", "checked for"),
        (lambda text: text.replace("max-num-seqs", "max-num-seps"), "refused", "max-num-seps"),
        (lambda text: text.replace("_4bit_nc", "_2bit_nc"), "refused", "turboquant_2bit_nc"),
    ],
)
def test_vllm_judges_the_profile_without_taking_the_gpu(
    tmp_path, rank_model, spoil, verdict, reason
):
    rendered = profile.render(profile.settings(rank_model, 8000, gpus=1, vision_tower="none"))
    (tmp_path / "serve.yaml").write_text(spoil(rendered.yaml))
    before = most = used_mib()
    with subprocess.Popen(
        [profile.python(), str(ASK), str(tmp_path / "serve.yaml")],
        env=rendered.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as asking:
        while asking.poll() is None:
            most = [max(pair) for pair in zip(most, used_mib(), strict=True)]
        assert asking.stdout
        said = json.loads(asking.stdout.read().splitlines()[-1])
    assert said["verdict"] == verdict, said
    assert reason in said["reason"]
    assert not said["gpu_was_taken"]
    assert most == before
