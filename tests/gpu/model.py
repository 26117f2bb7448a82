"""Models of the article's shape with random weights: a hybrid of GDN and attention, MTP, vision.

A folder from `write` holds config, tokenizer and processor, and no weights: the server under test
makes them itself, on its GPU, from the names of `tensors` (plugin/random_weights.py, load format
`random`), in a second instead of reading 54 GB. `write_checkpoint` writes the same tensors as
safetensors, for a test that must change them first.

The weights are drawn so that answers vary with the whole prompt and a draft of the MTP layer is
accepted about every third time: the residual stream is mostly the token's own embedding, every
layer adds a little, attention looks at few tokens, and the GDN states remember up to some thousand
tokens. vLLM's own `dummy` weights repeat one token whatever is asked.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

VOCABULARY = 32768
"""Far more than the tokenizer's own, so that any choice of a random model is a token."""
FIRST_PLAIN_TOKEN = 16
"""Tokens below are special; prompts are drawn from here to VOCABULARY."""

_SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"),
    *("<|image_pad|>", "<|video_pad|>"),
)


@dataclass(frozen=True)
class Shape:
    """The sizes that decide blocks, pools and kernels. Defaults: the article's whole model."""

    layers: int = 64
    hidden: int = 5120
    intermediate: int = 17408
    heads: int = 24
    kv_heads: int = 4
    gdn_key_heads: int = 16
    gdn_value_heads: int = 48
    vision: bool = True
    vision_depth: int = 27
    vision_hidden: int = 1152
    vision_intermediate: int = 4304

    @property
    def of_one_rank(self) -> Shape:
        """What one of two tensor-parallel ranks computes, as a model of its own."""
        return replace(
            self,
            intermediate=self.intermediate // 2,
            heads=self.heads // 2,
            kv_heads=self.kv_heads // 2,
            gdn_key_heads=self.gdn_key_heads // 2,
            gdn_value_heads=self.gdn_value_heads // 2,
        )


FULL = Shape()
RANK = FULL.of_one_rank
TINY = Shape(4, 256, 512, 4, 2, 2, 4, True, 2, 64, 128)
"""Runs on a CPU in seconds."""

HEAD_DIM = 256
GDN_HEAD_DIM = 128
PATCH = {"patch_size": 16, "temporal_patch_size": 2}
POSITIONS = 2304


def write(folder: Path, shape: Shape = RANK, max_tokens: int = 262144) -> Path:
    """Write config, tokenizer, chat template and processor; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_tokenizer(folder)
    _write_json(folder / "config.json", config(shape, max_tokens))
    if shape.vision:
        normal = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
        size = {"size": {"shortest_edge": 65536, "longest_edge": 1048576}}
        common = PATCH | {"merge_size": 2} | normal | size
        for name, kind in (("preprocessor", "Image"), ("video_preprocessor", "Video")):
            base = "Qwen2VLImageProcessor" if kind == "Image" else "Qwen3VLVideoProcessor"
            details = {
                f"{kind.lower()}_processor_type": base,
                "processor_class": "Qwen3VLProcessor",
            }
            _write_json(folder / f"{name}_config.json", common | details)
    return folder


def config(shape: Shape, max_tokens: int) -> dict[str, Any]:
    """config.json as Qwen3.5's own checkpoints have it."""
    text = {
        "model_type": "qwen3_5_text",
        "vocab_size": VOCABULARY,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "max_position_embeddings": max_tokens,
        "rms_norm_eps": 1e-6,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": GDN_HEAD_DIM,
        "linear_value_head_dim": GDN_HEAD_DIM,
        "linear_num_key_heads": shape.gdn_key_heads,
        "linear_num_value_heads": shape.gdn_value_heads,
        "full_attention_interval": 4,
        "attn_output_gate": True,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
        "mamba_ssm_dtype": "float32",
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000000,
            "partial_rotary_factor": 0.25,
            "mrope_section": [11, 11, 10],
            "mrope_interleaved": True,
        },
        "eos_token_id": 0,
        "bos_token_id": 0,
        "pad_token_id": 0,
    }
    if not shape.vision:
        return text | {"architectures": ["Qwen3_5ForCausalLM"]}
    vision = PATCH | {
        "model_type": "qwen3_5",
        "spatial_merge_size": 2,
        "depth": shape.vision_depth,
        "hidden_size": shape.vision_hidden,
        "intermediate_size": shape.vision_intermediate,
        "num_heads": 16,
        "in_channels": 3,
        "out_hidden_size": shape.hidden,
        "num_position_embeddings": POSITIONS,
        "hidden_act": "gelu_pytorch_tanh",
        "deepstack_visual_indexes": [],
    }
    ids = {f"{name}_token_id": _SPECIAL.index(f"<|{token}|>") for name, token in _MARKS.items()}
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "tie_word_embeddings": False,
        "text_config": text,
        "vision_config": vision,
        **ids,
    }


_MARKS = {
    "image": "image_pad",
    "video": "video_pad",
    "vision_start": "vision_start",
    "vision_end": "vision_end",
}

Tensor = tuple[tuple[int, ...], float, float]
"""Shape, mean and standard deviation."""


def tensors(shape: Shape) -> dict[str, Tensor]:
    """Every tensor of the checkpoint by its name in Qwen3.5's own: shape, mean, deviation."""
    prefix = "model.language_model." if shape.vision else "model."
    found = {
        f"{prefix}embed_tokens.weight": ((VOCABULARY, shape.hidden), 0.0, 1.0),
        f"{prefix}norm.weight": ((shape.hidden,), 0.0, 0.0),
        "lm_head.weight": _matrix(VOCABULARY, shape.hidden),
    }
    for layer in range(shape.layers):
        mixer = _attention(shape) if layer % 4 == 3 else _gdn(shape)
        found |= _prefixed(f"{prefix}layers.{layer}.", _layer(shape, mixer))
    found |= _prefixed("mtp.", _mtp(shape))
    if shape.vision:
        found |= _prefixed("model.visual.", _vision(shape))
    return found


def shape_of(config: Any) -> Shape:
    """The shape that a loaded config (transformers' object) was written from."""
    text = getattr(config, "text_config", config)
    vision = getattr(config, "vision_config", None)
    shape = Shape(
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        intermediate=text.intermediate_size,
        heads=text.num_attention_heads,
        kv_heads=text.num_key_value_heads,
        gdn_key_heads=text.linear_num_key_heads,
        gdn_value_heads=text.linear_num_value_heads,
        vision=vision is not None,
    )
    if vision is None:
        return shape
    return replace(
        shape,
        vision_depth=vision.depth,
        vision_hidden=vision.hidden_size,
        vision_intermediate=vision.intermediate_size,
    )


def _prefixed(prefix: str, group: dict[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in group.items()}


def _matrix(out: int, inputs: int, gain: float = 1.0) -> Tensor:
    """Keeps the size of what goes through it, times `gain`."""
    return (out, inputs), 0.0, gain / math.sqrt(inputs)


_GAIN = 0.08
"""Of what a layer adds to the stream: 64 of them together stay below the embedding."""


def _layer(shape: Shape, mixer: dict[str, Tensor]) -> dict[str, Tensor]:
    return mixer | {
        "input_layernorm.weight": ((shape.hidden,), 0.0, 0.0),
        "post_attention_layernorm.weight": ((shape.hidden,), 0.0, 0.0),
        "mlp.gate_proj.weight": _matrix(shape.intermediate, shape.hidden),
        "mlp.up_proj.weight": _matrix(shape.intermediate, shape.hidden),
        "mlp.down_proj.weight": _matrix(shape.hidden, shape.intermediate, _GAIN),
    }


def _attention(shape: Shape) -> dict[str, Tensor]:
    query, key = shape.heads * HEAD_DIM, shape.kv_heads * HEAD_DIM
    return {
        "self_attn.q_proj.weight": _matrix(2 * query, shape.hidden),  # with the output gate
        "self_attn.k_proj.weight": _matrix(key, shape.hidden),
        "self_attn.v_proj.weight": _matrix(key, shape.hidden),
        "self_attn.o_proj.weight": _matrix(shape.hidden, query, 5 * _GAIN),
        # The norms multiply by 1 + weight: scores of deviation 2.5 single out some thirty tokens.
        "self_attn.q_norm.weight": ((HEAD_DIM,), 1.5, 0.0),
        "self_attn.k_norm.weight": ((HEAD_DIM,), 0.0, 0.0),
    }


def _gdn(shape: Shape) -> dict[str, Tensor]:
    key = shape.gdn_key_heads * GDN_HEAD_DIM
    value = shape.gdn_value_heads * GDN_HEAD_DIM
    heads = shape.gdn_value_heads
    return {
        "linear_attn.in_proj_qkv.weight": _matrix(2 * key + value, shape.hidden),
        "linear_attn.in_proj_z.weight": _matrix(value, shape.hidden),
        "linear_attn.in_proj_b.weight": _matrix(heads, shape.hidden),
        "linear_attn.in_proj_a.weight": _matrix(heads, shape.hidden, 0.1),
        "linear_attn.conv1d.weight": ((2 * key + value, 1, 4), 0.0, 0.5),
        # A step forgets exp(A_log) * softplus(dt_bias): a tenth to a ten-thousandth of the state.
        "linear_attn.dt_bias": ((heads,), -6.0, 2.0),
        "linear_attn.A_log": ((heads,), 0.0, 0.5),
        "linear_attn.norm.weight": ((GDN_HEAD_DIM,), 1.0, 0.0),
        "linear_attn.out_proj.weight": _matrix(shape.hidden, value, _GAIN),
    }


def _mtp(shape: Shape) -> dict[str, Tensor]:
    norms = ("norm", "pre_fc_norm_hidden", "pre_fc_norm_embedding")
    return {
        # Mostly the token's own embedding, as the model itself: see `fill`.
        "fc.weight": _matrix(shape.hidden, 2 * shape.hidden, 0.1),
        **{f"{name}.weight": ((shape.hidden,), 0.0, 0.0) for name in norms},
        **_prefixed("layers.0.", _layer(shape, _attention(shape))),
    }


def _vision(shape: Shape) -> dict[str, Tensor]:
    hidden, inner, merged = shape.vision_hidden, shape.vision_intermediate, 4 * shape.vision_hidden
    pixels = 3 * PATCH["temporal_patch_size"] * PATCH["patch_size"] ** 2
    found: dict[str, Tensor] = {
        "patch_embed.proj.weight": ((hidden, 3, 2, 16, 16), 0.0, 1 / math.sqrt(pixels)),
        "patch_embed.proj.bias": ((hidden,), 0.0, 0.0),
        "pos_embed.weight": ((POSITIONS, hidden), 0.0, 0.1),
    }
    for block in range(shape.vision_depth):
        found |= _prefixed(
            f"blocks.{block}.",
            _linear("attn.qkv", 3 * hidden, hidden)
            | _linear("attn.proj", hidden, hidden, _GAIN)
            | _linear("mlp.linear_fc1", inner, hidden)
            | _linear("mlp.linear_fc2", hidden, inner, _GAIN)
            | _layer_norm("norm1", hidden)
            | _layer_norm("norm2", hidden),
        )
    return (
        found
        | _layer_norm("merger.norm", hidden)
        | _linear("merger.linear_fc1", merged, merged)
        | _linear("merger.linear_fc2", shape.hidden, merged)
    )


def _linear(name: str, out: int, inputs: int, gain: float = 1.0) -> dict[str, Tensor]:
    return {f"{name}.weight": _matrix(out, inputs, gain), f"{name}.bias": ((out,), 0.0, 0.0)}


def _layer_norm(name: str, size: int) -> dict[str, Tensor]:
    return {f"{name}.weight": ((size,), 1.0, 0.0), f"{name}.bias": ((size,), 0.0, 0.0)}


def fill(shape: Shape, device: str, seed: int = 1) -> Iterator[tuple[str, Any]]:
    """Every tensor of the checkpoint with its values, bfloat16, one at a time.

    The same seed and kind of device give the same values in every process: tensor-parallel ranks
    draw the whole tensor each, and keep their share.
    """
    import torch

    for name, (size, mean, deviation) in tensors(shape).items():
        tensor = torch.full(size, mean, dtype=torch.bfloat16, device=device)
        if deviation:
            digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
            drawn = torch.Generator(device).manual_seed(int.from_bytes(digest[:7], "big"))
            tensor = tensor.normal_(mean, deviation, generator=drawn)
        if name == "mtp.fc.weight":
            tensor[:, : shape.hidden] += torch.eye(
                shape.hidden, dtype=torch.bfloat16, device=device
            )
        yield name, tensor


def write_checkpoint(folder: Path, shape: Shape, seed: int = 1, device: str = "cpu") -> Path:
    """`write`, and the weights as one safetensors file: for few layers, all is in memory once."""
    from safetensors.torch import save_file

    write(folder, shape)
    contents = {name: tensor.cpu().contiguous() for name, tensor in fill(shape, device, seed)}
    save_file(contents, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def describe(shape: Shape) -> dict[str, Any]:
    """The shape and its number of parameters, for a record."""
    return asdict(shape) | {"parameters": sum(math.prod(t[0]) for t in tensors(shape).values())}


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: FIRST_PLAIN_TOKEN + index for index, token in enumerate(alphabet)}
    tokenizer = Tokenizer(
        models.BPE(vocab={t: i for i, t in enumerate(_SPECIAL)} | vocabulary, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in _SPECIAL])
    _write_text(folder / "tokenizer.json", tokenizer.to_str())
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 262144,
        "additional_special_tokens": list(_SPECIAL[1:]),
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "vision_bos_token": "<|vision_start|>",
        "vision_eos_token": "<|vision_end|>",
    }
    _write_json(folder / "tokenizer_config.json", described)
    _write_text(folder / "chat_template.jinja", _CHAT_TEMPLATE)


_CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else -%}
{%- for part in message.content -%}
{%- if part.type == "text" %}{{ part.text }}
{%- else %}<|vision_start|><|image_pad|><|vision_end|>{% endif -%}
{%- endfor -%}
{%- endif %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
"""


def _write_json(path: Path, content: dict[str, Any]) -> None:
    _write_text(path, json.dumps(content, indent=1) + "\n")


def _write_text(path: Path, text: str) -> None:
    """Whole or not at all: a server may be reading the folder that another test writes again."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
