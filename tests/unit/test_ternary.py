"""Packing a ternary checkpoint: the same in every bit, or refused with the tensor's name."""

import json
import os
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hostkit import cli
from hostkit.host import paths
from scripts import ternary

SHAPE = (96, 256)


def weight(group, dtype=np.float16, seed=0):
    """{-1, 0, 1} times a scale per `group` columns; 0 is a whole row."""
    chance = np.random.default_rng(seed)
    rows, columns = SHAPE
    signs = chance.integers(-1, 2, size=(rows, columns // (group or columns), group or columns))
    scales = chance.uniform(0.01, 0.1, size=(*signs.shape[:2], 1)).astype(dtype)
    return (signs * scales).astype(dtype).reshape(SHAPE)


def bfloat16(values):
    """The upper half of each float32, as safetensors files hold it."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype("<u2")


def checkpoint(folder, weights, **config):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
    (folder / "tokenizer.json").write_text("{}")
    save_file(weights, folder / "model.safetensors")
    return folder


def float_of(codes, scale):
    return codes * np.repeat(scale, codes.shape[1] // scale.shape[1], axis=1)


def codes_of(words, bits):
    """The layout of compressed-tensors, read another way than the program writes it."""
    low_first = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
    places = low_first.reshape(words.shape[0], -1, bits)
    return places @ (1 << np.arange(bits)) - (1 << (bits - 1))


@pytest.mark.parametrize("bits", [4, 2])
@pytest.mark.parametrize("group", [0, 128, 64, 32])
def test_what_is_packed_stands_for_the_same_numbers(tmp_path, capsys, group, bits):
    original = weight(group)
    source = checkpoint(tmp_path / "in", {"layers.0.q_proj.weight": original})
    assert ternary.main([str(source), str(tmp_path / "out"), "--bits", str(bits)]) == 0
    assert "the same in every bit" in capsys.readouterr().out
    found = load_file(tmp_path / "out/model.safetensors")
    codes = codes_of(found["layers.0.q_proj.weight_packed"], bits)
    assert set(np.unique(codes)) == {-1, 0, 1}
    again = float_of(codes, found["layers.0.q_proj.weight_scale"])
    assert np.array_equal(again.astype(np.float16), original)
    assert list(found["layers.0.q_proj.weight_shape"]) == list(SHAPE)
    config = json.loads((tmp_path / "out/config.json").read_text())["quantization_config"]
    weights = config["config_groups"]["group_0"]["weights"]
    assert config["quant_method"] == "compressed-tensors"
    assert (weights["num_bits"], weights["group_size"]) == (bits, group or None)
    assert weights["strategy"] == ("group" if group else "channel")
    assert (tmp_path / "out/tokenizer.json").exists()


def test_bfloat16_is_compared_bit_by_bit(tmp_path):
    bits = bfloat16(weight(128, np.float32))
    scales = np.abs(weight(128, np.float32)).reshape(96, 2, 128).max(axis=2)
    parts = ternary.pack(ternary._tensor("BF16", bits), 128, 4)
    assert np.array_equal(parts["weight_scale"].bits(), bfloat16(scales))
    assert ternary.same(ternary._tensor("BF16", bits), parts, 4)


def test_a_single_other_bit_is_seen():
    """What proves that nothing was lost must be able to fail."""
    bits = bfloat16(weight(128, np.float32))
    parts = ternary.pack(ternary._tensor("BF16", bits), 128, 4)
    bits[5, 7] ^= 1
    assert not ternary.same(ternary._tensor("BF16", bits), parts, 4)


def test_minus_zero_counts_as_zero():
    bits = bfloat16(weight(0, np.float32))
    bits[bits == 0] = 0x8000
    tensor = ternary._tensor("BF16", bits)
    assert ternary.same(tensor, ternary.pack(tensor, 0, 2), 2)


def changed(row, column, value):
    def change(original):
        original[row, column] = value
        return original

    return change


NOT_TERNARY = {
    "one weight is twice its scale": changed(3, 3, 0.5),
    "one weight is a last bit off": lambda w: np.where(w == w.max(), np.nextafter(w, 1), w),
    "one weight is infinite": changed(0, 0, np.inf),
    "one weight is no number": changed(0, 0, np.nan),
    "a scale per 16 neighbours": lambda w: weight(16),
    "30 columns": lambda w: w[:, :30],
}


@pytest.mark.parametrize("change", NOT_TERNARY.values(), ids=NOT_TERNARY.keys())
def test_a_tensor_that_is_not_ternary_is_named_and_nothing_is_left(tmp_path, capsys, change):
    odd = np.ascontiguousarray(change(weight(32)).astype(np.float16))
    weights = {"a.weight": weight(64), "layers.7.up_proj.weight": odd}
    source = checkpoint(tmp_path / "in", weights)
    assert ternary.main([str(source), str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: layers.7.up_proj.weight")
    assert said.count("\n") == 1
    assert not list(tmp_path.glob("out*"))
    # The twin: left alone, it does not stand in the way, and vLLM is told.
    assert ternary.main([str(source), str(tmp_path / "out"), "--keep", "up_proj"]) == 0
    config = json.loads((tmp_path / "out/config.json").read_text())["quantization_config"]
    assert config["ignore"] == ["layers.7.up_proj"]


def test_what_is_no_linear_layer_stays_as_it_is(tmp_path):
    others = {
        "model.embed_tokens.weight": np.random.default_rng(1).random(SHAPE),
        "lm_head.weight": np.random.default_rng(2).random(SHAPE),
        "model.visual.blocks.0.attn.qkv.weight": np.random.default_rng(3).random(SHAPE),
        "model.norm.weight": np.ones(256),
        "layers.0.conv1d.weight": np.random.default_rng(4).random((8, 1, 4)),
        "layers.0.A_log": np.ones((8, 8)),
    }
    source = checkpoint(tmp_path / "in", {"layers.0.q_proj.weight": weight(0), **others})
    assert ternary.main([str(source), str(tmp_path / "out")]) == 0
    found = load_file(tmp_path / "out/model.safetensors")
    for name, values in others.items():
        assert np.array_equal(found[name], values)
    config = json.loads((tmp_path / "out/config.json").read_text())["quantization_config"]
    assert "model.visual.blocks.0.attn.qkv" in config["ignore"]


def test_shards_keep_their_names_and_the_index_knows_the_parts(tmp_path):
    source = checkpoint(tmp_path / "in", {"a.weight": weight(0)})
    (source / "model.safetensors").rename(source / "model-00001-of-00002.safetensors")
    save_file({"b.weight": weight(64)}, source / "model-00002-of-00002.safetensors")
    (source / ternary.INDEX).write_text(json.dumps({"weight_map": {}}))
    assert ternary.main([str(source), str(tmp_path / "out")]) == 0
    index = json.loads((tmp_path / "out" / ternary.INDEX).read_text())
    assert index["weight_map"]["a.weight_packed"] == "model-00001-of-00002.safetensors"
    assert index["weight_map"]["b.weight_scale"] == "model-00002-of-00002.safetensors"
    # One group size holds for the whole model: the finer of the two.
    found = load_file(tmp_path / "out/model-00001-of-00002.safetensors")
    assert found["a.weight_scale"].shape == (96, 4)


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda source, target: target.mkdir(), "is there already"),
        (lambda source, target: (source / "model.safetensors").unlink(), "no *.safetensors"),
        (lambda source, target: (source / "config.json").unlink(), "config.json"),
        (
            lambda source, target: (source / "config.json").write_text(
                '{"quantization_config": {"quant_method": "awq"}}'
            ),
            "quantization_config already",
        ),
    ],
)
def test_a_folder_that_cannot_be_packed_is_refused_in_one_line(tmp_path, capsys, prepare, reason):
    source, target = checkpoint(tmp_path / "in", {"a.weight": weight(0)}), tmp_path / "out"
    prepare(source, target)
    assert ternary.main([str(source), str(target)]) == 1
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1


def test_hostkit_packs_with_the_newest_release(tmp_path, monkeypatch, capsys):
    releases = tmp_path / "releases"
    monkeypatch.setattr(paths, "RELEASES", releases)
    source = checkpoint(tmp_path / "in", {"a.weight": weight(0)})
    command = ["pack-ternary", str(source), str(tmp_path / "out"), "--bits", "2"]
    assert cli.main(command) == 1
    assert "no release is built" in capsys.readouterr().err
    (releases / "r/venv/bin").mkdir(parents=True)
    (releases / "r/manifest.json").write_text("{}")
    python = releases / "r/venv/bin/python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    os.chmod(python, 0o755)
    assert cli.main(command) == 0
    assert "packed to 2 bits" in capsys.readouterr().out
    assert cli.main(command) == 1
    assert "is there already" in capsys.readouterr().err
