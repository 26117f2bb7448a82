"""The pure parts of turning a GGUF file into a model folder."""

import numpy as np
import pytest

from tests.rehearsal.host import smollm2


def permuted(weight, heads):
    """llama.cpp's order of the rows: within each head, first and second half interleaved."""
    rows, columns = weight.shape
    return (
        weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
    )


@pytest.mark.parametrize("heads", [1, 3, 9])
def test_rows_come_back_from_llama_cpps_order(heads):
    weight = np.arange(heads * 8 * 5, dtype=np.float32).reshape(heads * 8, 5)
    assert not np.array_equal(permuted(weight, heads), weight)
    assert np.array_equal(smollm2.unpermuted(permuted(weight, heads), heads), weight)


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (1.0, 0x3F80),
        (-2.5, 0xC020),
        (1.00390625, 0x3F80),  # half-way: to the even neighbour below
        (1.01171875, 0x3F82),  # half-way: to the even neighbour above
        (1.00390637, 0x3F81),  # just above half-way
        (0.0, 0x0000),
    ],
)
def test_bfloat16_is_rounded_to_the_nearest_and_ties_to_even(value, bits):
    assert smollm2.bfloat16(np.array([value], dtype=np.float32)).tolist() == [bits]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("blk.29.attn_output.weight", "model.layers.29.self_attn.o_proj.weight"),
        ("blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
    ],
)
def test_tensors_get_hugging_faces_names(theirs, ours):
    assert smollm2.tensor_name(theirs) == ours


def test_a_tensor_that_is_not_known_is_not_passed_over():
    with pytest.raises(KeyError):
        smollm2.tensor_name("blk.0.attn_sinks.weight")


def test_a_half_made_model_is_no_model(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(smollm2, "_wheel", lambda: tmp_path / "no.whl")
    with pytest.raises(FileNotFoundError):
        smollm2.make()
    assert not smollm2.folder().exists()
    assert list(smollm2.folder().parent.iterdir()) == []
