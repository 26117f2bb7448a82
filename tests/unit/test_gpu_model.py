"""The model that tests/gpu serves has the article's shape and Qwen3.5's own names."""

import json

from tests.gpu import model


def test_the_whole_model_has_the_articles_shape(tmp_path):
    written = json.loads((model.write(tmp_path, model.FULL) / "config.json").read_text())
    text = written["text_config"]
    assert (text["num_attention_heads"], text["num_key_value_heads"]) == (24, 4)
    assert (text["linear_num_key_heads"], text["linear_num_value_heads"]) == (16, 48)
    names = model.tensors(model.FULL)
    attention = {name.split(".")[3] for name in names if ".layers." in name and "self_attn" in name}
    assert len(attention - {"self_attn"}) == 16  # of 64, every fourth


def test_two_ranks_make_the_whole():
    rank, full = model.RANK, model.FULL
    assert (rank.heads, rank.kv_heads, rank.gdn_value_heads) == (12, 2, 24)
    assert full.intermediate == 2 * rank.intermediate
    assert rank.layers == full.layers
