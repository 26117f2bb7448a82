"""What a model's folder says of itself: refused before anything is downloaded or stopped."""

import json

import pytest
from pydantic import ValidationError

from hostkit import cli
from hostkit.model import modelconfig, weights
from tasks.shared.engine import compat
from tasks.shared.settings import Settings, describe
from tests.unit.test_hostkit_weights import shard

METHODS = tuple(compat.manifest("0.31.0").quantization_methods)
PLAIN = {"model_type": "qwen3_5", "max_position_embeddings": 262144}


@pytest.fixture
def folder(tmp_path):
    shard(tmp_path / "model.safetensors")
    return tmp_path


def say(folder, **config):
    (folder / "config.json").write_text(json.dumps(config))


MISFITS = [
    # what config.json says, max_model_len, a word of the reason, and the twin that fits
    ({"quantization_config": {"quant_method": "bitnet"}}, 100, "bitnet", 'method": "awq"'),
    ({"text_config": {"quantization_config": {"quant_method": "x"}}}, 100, "quant_method x", "awq"),
    ({"max_position_embeddings": 8192}, 8193, "at most 8192", ""),
    ({"text_config": {"max_position_embeddings": 4096}}, 4097, "at most 4096", ""),
    ({"max_position_embeddings": 100, "model_max_length": 50}, 51, "at most 50", ""),
    (
        {"max_position_embeddings": 100, "rope_scaling": {"type": "linear", "factor": 4.0}},
        401,
        "at most 400",
        "",
    ),
    (
        {
            "max_position_embeddings": 100,
            "rope_parameters": {"rope_type": "yarn", "factor": 4.0},
        },
        101,
        "at most 100",
        "",
    ),
]


@pytest.mark.parametrize(("config", "length", "reason", "_"), MISFITS)
def test_what_does_not_fit_the_model_is_refused_with_what_is_needed(
    folder, capsys, config, length, reason, _
):
    say(folder, **config)
    command = ["check-model", str(folder), f"--methods={','.join(METHODS)}"]
    assert cli.main([*command, f"--max-model-len={length}"]) == 1
    said = capsys.readouterr().err
    assert weights.MISFIT in said
    assert reason in said
    assert said.count("\n") == 1
    if "at most" in reason:
        assert cli.main([*command, f"--max-model-len={length - 1}"]) == 0
    else:
        say(folder, quantization_config={"quant_method": "compressed-tensors"})
        assert cli.main([*command, f"--max-model-len={length}"]) == 0


def test_a_method_that_a_plugin_may_bring_is_left_to_vllm(folder):
    say(folder, quantization_config={"quant_method": "ternary"})
    assert modelconfig.misfits(folder, max_model_len=1, methods=()) == []
    assert modelconfig.misfits(folder, max_model_len=1, methods=METHODS)


def test_a_model_that_does_not_say_its_length_is_not_refused(folder):
    say(folder, model_type="x")
    assert modelconfig.misfits(folder, max_model_len=10**9, methods=METHODS) == []


def test_a_gguf_file_is_refused_with_what_is_needed(tmp_path):
    (tmp_path / "model-TQ2_0.gguf").write_bytes(b"GGUF")
    say(tmp_path, **PLAIN)
    (line,) = weights.problems(tmp_path)
    assert "model-TQ2_0.gguf is a GGUF file" in line
    assert "pack-ternary" in line
    # The twin: a GGUF file beside safetensors is only ballast.
    shard(tmp_path / "model.safetensors")
    assert weights.problems(tmp_path) == []


def test_an_mlx_folder_is_refused_with_what_is_needed(folder):
    packed = {"group_size": 128, "bits": 2}
    say(folder, **PLAIN, quantization=packed, quantization_config=packed)
    (line,) = weights.problems(folder)
    assert "MLX" in line
    assert "pack-ternary" in line
    say(folder, **PLAIN, quantization_config={"quant_method": "awq", **packed})
    assert weights.problems(folder) == []


def mistakes(values):
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(values)
    return describe("box", caught.value)


def test_a_folder_of_this_machine_is_judged_before_any_host(production, folder):
    say(folder, max_position_embeddings=8192)
    model = {"model": f"control:{folder}"}
    (line,) = mistakes(production | model)
    assert "max_model_len = 65536 is beyond the model's own 8192" in line
    Settings.model_validate(production | model | {"max_model_len": 8192})


def test_an_unknown_quantization_needs_a_plugin(production):
    (line,) = mistakes(production | {"quantization": "ternary"})
    assert "a plugin that brings it would be needed" in line
    plugin = {"plugins": [f"ternary-quant==1.0 --hash=sha256:{'0' * 64}"]}
    Settings.model_validate(production | {"quantization": "ternary"} | plugin)
    Settings.model_validate(production | {"quantization": "humming"})
