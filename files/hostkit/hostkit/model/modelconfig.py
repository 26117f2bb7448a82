"""What a model's folder says of itself that a server must fit: its format, method and length.

The control machine asks the same of a folder before it uploads it.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "seq_len")
# Far beyond any model, and what some write for "no limit".
_UNLIMITED = 1e18
# Of these, max_position_embeddings is scaled already.
_SCALED = ("default", "su", "longrope", "llama3", "yarn", "deepseek_yarn")


def foreign_format(folder: Path, config: dict[str, Any]) -> str | None:
    """Why this folder is of another engine's format, and what would be needed; None for none."""
    ggufs = sorted(folder.glob("*.gguf"))
    if ggufs and not list(folder.glob("*.safetensors")):
        return (
            f"{ggufs[0].name} is a GGUF file, which vLLM does not load: take the model's "
            "Hugging Face folder, or write these weights out as safetensors and, when they are "
            "ternary, pack them with hostkit pack-ternary"
        )
    mlx = config.get("quantization")
    if isinstance(mlx, dict) and {"bits", "group_size"} <= mlx.keys() and not method(config):
        return (
            "config.json is MLX's (quantization with bits and group_size), whose packed weights "
            "vLLM would misread: take the unpacked Hugging Face folder, and pack it with hostkit "
            "pack-ternary when it is ternary"
        )
    return None


def method(config: dict[str, Any]) -> str | None:
    """The quantization method that a config.json names; None for plain weights."""
    for holder in (config, _text(config)):
        found = holder.get("quantization_config") or holder.get("compression_config")
        if isinstance(found, dict) and found.get("quant_method"):
            return str(found["quant_method"]).lower()
    return None


def longest(config: dict[str, Any]) -> int | None:
    """The longest text in tokens that the model was made for; None when it does not say."""
    text = _text(config)
    if own := _number(text.get("model_max_length")):
        return int(own)
    lengths = [length for key in _LENGTHS if (length := _number(text.get(key)))]
    if not lengths:
        return None
    rope = text.get("rope_parameters") or text.get("rope_scaling")
    if not isinstance(rope, dict):
        rope = {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    factor = 1.0 if kind in _SCALED else _number(rope.get("factor")) or 1.0
    return int(min(lengths) * factor)


def _number(value: Any) -> float | None:
    """A length or a factor as a number; None for what can be none, such as Infinity."""
    return float(value) if isinstance(value, (int, float)) and 0 < value < _UNLIMITED else None


def misfits(folder: Path, *, max_model_len: int, methods: Sequence[str]) -> list[str]:
    """Why these settings do not fit the model of a folder, a line each with what to do.

    `methods` are those that vLLM registers by itself; empty where a plugin may bring more.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []  # said elsewhere
    if not isinstance(config, dict):
        return []
    found = []
    own = method(config)
    if methods and own and own not in methods:
        found.append(
            f"quant_method {own} of config.json is none that this vLLM registers: a plugin that "
            "brings it would be needed (plugins), or weights in a method that it has, for ternary "
            "ones compressed-tensors by hostkit pack-ternary"
        )
    limit = longest(config)
    if limit and max_model_len > limit:
        found.append(
            f"max_model_len = {max_model_len} is beyond the model's own {limit} tokens: set at "
            f"most {limit}"
        )
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of a command that asks for `misfits`."""
    parser.add_argument("--max-model-len", type=int, default=0, help="tokens that must fit")
    parser.add_argument("--methods", default="", help="known quantization methods, with commas")


def options(args: argparse.Namespace) -> dict[str, Any]:
    """Those options as `misfits` takes them."""
    methods = [each for each in args.methods.split(",") if each]
    return {"max_model_len": args.max_model_len, "methods": methods}


def _text(config: dict[str, Any]) -> dict[str, Any]:
    text = config.get("text_config")
    return text if isinstance(text, dict) else config
