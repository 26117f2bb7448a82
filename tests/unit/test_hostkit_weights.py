"""Is a folder a complete model?"""

import json
import struct

import pytest

from hostkit.model import weights


def shard(path, size=64):
    header = json.dumps(
        {"__metadata__": {}, "w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    ).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"x" * size)


@pytest.fixture
def model(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    shard(tmp_path / "model-1.safetensors")
    shard(tmp_path / "model-2.safetensors")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (tmp_path / weights.INDEX).write_text(json.dumps(index))
    return tmp_path


def test_a_complete_model_passes(model):
    assert weights.problems(model) == []


def test_a_single_file_without_an_index_passes(model):
    (model / weights.INDEX).unlink()
    assert weights.problems(model) == []


def cut(model):
    path = model / "model-2.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def cut_header(model):
    path = model / "model-2.safetensors"
    path.write_bytes(path.read_bytes()[:20])


BROKEN = [
    (lambda m: (m / "model-2.safetensors").unlink(), "shard model-2.safetensors of"),
    (cut, "its header says"),
    (cut_header, "cut off"),
    (lambda m: (m / "model-1.safetensors").write_bytes(b""), "too short"),
    (lambda m: (m / "model-1.safetensors").write_bytes(b"\xff" * 99), "not a safetensors file"),
    (lambda m: (m / "config.json").unlink(), "config.json is missing"),
    (lambda m: (m / "config.json").write_text("{"), "config.json is not readable"),
    (lambda m: (m / "config.json").write_bytes(b"\xff\xfe"), "config.json is not readable"),
    (lambda m: (m / "config.json").write_text("[]"), "config.json is not readable"),
    (lambda m: (m / weights.INDEX).write_text("nonsense"), f"{weights.INDEX} is not readable"),
]


@pytest.mark.parametrize(("damage", "words"), BROKEN, ids=[words for _, words in BROKEN])
def test_a_damaged_model_is_refused(model, damage, words):
    damage(model)
    (line,) = weights.problems(model)
    assert words in line


def test_what_is_no_folder_is_refused(tmp_path):
    assert weights.problems(tmp_path / "gone") == ["there is no such folder"]
