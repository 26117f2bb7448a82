"""Pack a ternary checkpoint into compressed-tensors int4 or int2, which vLLM serves, without loss.

usage: ternary.py SOURCE TARGET [--bits 4|2] [--keep REGEX]...

SOURCE is a Hugging Face folder whose linear weights are {-1, 0, 1} times one scale per row, or per
128, 64 or 32 neighbours in a row, written out as bfloat16, float16 or float32. Codes and scales are
found by comparing bits: nothing is rounded, and what was written is read back and compared again.
Needs numpy only: any release's Python has it.
"""

import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.unsignedinteger[Any]]

INDEX = "model.safetensors.index.json"
KEPT = (r"(^|\.)(embed_tokens|lm_head|wte)\.", r"(^|\.)(visual|vision_tower|vision_model)\.")
"""Weights that stay as they are: vLLM does not quantise them, or they are not ternary anywhere."""

GROUPS = (128, 64, 32)
"""The group sizes that vLLM's Marlin kernel takes besides a whole row."""

_FORMATS = {"BF16": ("<u2", 0x7F80), "F16": ("<u2", 0x7C00), "F32": ("<u4", 0x7F800000)}
_ROWS = 1024


class NotTernary(Exception):
    """The checkpoint cannot be packed; the text names the tensor and what is wrong with it."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a safetensors file, its content mapped, not read."""

    dtype: str
    shape: tuple[int, ...]
    data: npt.NDArray[np.uint8]

    def bits(self) -> Bits:
        """The content of a floating-point matrix as unsigned integers."""
        return self.data.view(_FORMATS[self.dtype][0]).reshape(self.shape)


def read(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name."""
    raw = np.memmap(path, mode="r")
    start = 8 + int.from_bytes(raw[:8].tobytes(), "little")
    header = json.loads(raw[8:start].tobytes())
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (start + offset for offset in entry["data_offsets"])
        tensors[name] = Tensor(entry["dtype"], tuple(entry["shape"]), raw[begin:end])
    return tensors


def write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + tensor.data.nbytes
        header[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            tensor.data.tofile(file)


def packed(name: str, tensor: Tensor, keep: list[str]) -> bool:
    """Is this the weight of a linear layer, to be packed?"""
    if not name.endswith(".weight") or len(tensor.shape) != 2:
        return False
    return not any(re.search(pattern, name) for pattern in keep)


def scales(bits: Bits, group: int, dtype: str) -> Bits | None:
    """The scale of each group, as bits; None when a group holds two different magnitudes."""
    sign = 1 << (bits.dtype.itemsize * 8 - 1)
    found = []
    for rows in _blocks(bits):
        magnitudes = (rows & (sign - 1)).reshape(len(rows), -1, group)
        largest = magnitudes.max(axis=2)
        if not ((magnitudes == 0) | (magnitudes == largest[..., None])).all():
            return None
        if (largest >= _FORMATS[dtype][1]).any():
            return None
        found.append(largest)
    return np.concatenate(found)


def granularities(name: str, tensor: Tensor) -> list[int]:
    """The group sizes that describe this weight, coarsest first; 0 is a whole row.

    Raises NotTernary when there is none.
    """
    if tensor.dtype not in _FORMATS:
        raise NotTernary(f"{name} is {tensor.dtype}: expected {', '.join(_FORMATS)}")
    _, columns = tensor.shape
    if columns % 32:
        raise NotTernary(f"{name} has {columns} columns: vLLM's kernels want a multiple of 32")
    fit: list[int] = []
    for group in (0, *GROUPS):
        divides = not group or columns % group == 0
        if divides and (fit or scales(tensor.bits(), group or columns, tensor.dtype) is not None):
            fit.append(group)
    if not fit:
        raise NotTernary(
            f"{name} is not {{-1, 0, 1}} times a scale per row or per 128, 64 or 32 neighbours;"
            " to leave it as it is: --keep"
        )
    return fit


def pack(tensor: Tensor, group: int, bits: int) -> dict[str, Tensor]:
    """`weight_packed`, `weight_scale` and `weight_shape` of one weight.

    Codes are stored plus 2 ** (bits - 1), the first of a row in the lowest bits of an int32.
    """
    rows, columns = tensor.shape
    source = tensor.bits()
    scale = scales(source, group or columns, tensor.dtype)
    assert scale is not None
    sign = 1 << (source.dtype.itemsize * 8 - 1)
    per_word = 32 // bits
    words = []
    for block in _blocks(source):
        codes = np.where((block & (sign - 1)) == 0, 0, np.where(block & sign, -1, 1))
        stored = (codes + (1 << (bits - 1))).astype("<u4")
        word = np.zeros((len(block), columns // per_word), "<u4")
        for place in range(per_word):
            word |= stored[:, place::per_word] << np.uint32(bits * place)
        words.append(word)
    shape = np.array([rows, columns], "<i8")
    return {
        "weight_packed": _tensor("I32", np.concatenate(words)),
        "weight_scale": _tensor(tensor.dtype, scale),
        "weight_shape": _tensor("I64", shape),
    }


def unpacked(parts: Mapping[str, Tensor], bits: int) -> Iterator[Bits]:
    """The weight that packed parts stand for, as bits, in blocks of rows."""
    scale = parts["weight_scale"].bits()
    words = parts["weight_packed"].data.view("<u4").reshape(parts["weight_packed"].shape)
    per_word = 32 // bits
    columns = words.shape[1] * per_word
    sign = scale.dtype.type(1 << (scale.dtype.itemsize * 8 - 1))
    for begin in range(0, len(words), _ROWS):
        block = words[begin : begin + _ROWS]
        codes = np.empty((len(block), columns), np.int8)
        for place in range(per_word):
            stored = (block >> np.uint32(bits * place)) & np.uint32((1 << bits) - 1)
            codes[:, place::per_word] = stored.astype(np.int8) - (1 << (bits - 1))
        wide = np.repeat(scale[begin : begin + _ROWS], columns // scale.shape[1], axis=1)
        zero, negative = scale.dtype.type(0), wide | sign
        yield np.where(codes == 0, zero, np.where(codes < 0, negative, wide))


def same(tensor: Tensor, parts: Mapping[str, Tensor], bits: int) -> bool:
    """Do packed parts stand for exactly this weight? Minus zero counts as zero."""
    source = tensor.bits()
    sign = 1 << (source.dtype.itemsize * 8 - 1)
    blocks = zip(_blocks(source), unpacked(parts, bits), strict=True)
    return all(np.array_equal(np.where(a == sign, 0, a), b) for a, b in blocks)


def quantization_config(group: int, bits: int, ignored: list[str]) -> dict[str, Any]:
    """What config.json says about the packed weights."""
    weights = {
        "num_bits": bits,
        "type": "int",
        "symmetric": True,
        "dynamic": False,
        "strategy": "group" if group else "channel",
        "group_size": group or None,
    }
    group_0 = {"targets": ["Linear"], "weights": weights}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": group_0},
        "ignore": ignored,
    }


def convert(source: Path, target: Path, bits: int, keep: list[str]) -> str:
    """Pack the checkpoint of a folder into another; returns what was done, in a line."""
    config = json.loads((source / "config.json").read_text("utf-8"))
    if "quantization_config" in config:
        raise NotTernary(f"{source / 'config.json'} has a quantization_config already")
    shards = sorted(source.glob("*.safetensors"))
    if not shards:
        raise NotTernary(f"{source} has no *.safetensors file")
    group, ignored, count = _survey(shards, keep)
    target.mkdir(parents=True)
    weight_map: dict[str, str] = {}
    total = 0
    for shard in shards:
        tensors = _packed_shard(read(shard), group, bits, keep)
        write(target / shard.name, tensors)
        _prove(read(shard), read(target / shard.name), bits, keep)
        weight_map |= dict.fromkeys(tensors, shard.name)
        total += sum(tensor.data.nbytes for tensor in tensors.values())
    for file in source.iterdir():
        if file.is_file() and file.suffix != ".safetensors" and not file.name.startswith("."):
            shutil.copy(file, target)
    if (source / INDEX).exists():
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (target / INDEX).write_text(json.dumps(index, indent=2))
    config["quantization_config"] = quantization_config(group, bits, ignored)
    (target / "config.json").write_text(json.dumps(config, indent=2))
    before = sum(shard.stat().st_size for shard in shards)
    per = f"per {group} neighbours" if group else "per row"
    return (
        f"{count} weights packed to {bits} bits with a scale {per}, the same in every bit: "
        f"{before / 1e9:.2f} GB are {total / 1e9:.2f} GB now"
    )


def _survey(shards: list[Path], keep: list[str]) -> tuple[int, list[str], int]:
    """The coarsest group size that fits all weights, the layers left alone, how many are packed."""
    fit, ignored, count = [0, *GROUPS], [], 0
    for shard in shards:
        for name, tensor in read(shard).items():
            if packed(name, tensor, keep):
                own = granularities(name, tensor)
                fit = [group for group in fit if group in own]
                count += 1
            elif name.endswith(".weight") and len(tensor.shape) == 2:
                ignored.append(name.removesuffix(".weight"))
    if not count:
        raise NotTernary("there is no linear weight to pack")
    return fit[0], ignored, count


def _packed_shard(
    tensors: dict[str, Tensor], group: int, bits: int, keep: list[str]
) -> dict[str, Tensor]:
    result = {}
    for name, tensor in tensors.items():
        if not packed(name, tensor, keep):
            result[name] = tensor
            continue
        layer = name.removesuffix("weight")
        result |= {layer + part: each for part, each in pack(tensor, group, bits).items()}
    return result


def _prove(before: dict[str, Tensor], after: dict[str, Tensor], bits: int, keep: list[str]) -> None:
    for name, tensor in before.items():
        if packed(name, tensor, keep):
            layer = name.removesuffix("weight")
            parts = {part: after[layer + part] for part in ("weight_packed", "weight_scale")}
            intact = same(tensor, parts, bits)
        else:
            intact = np.array_equal(tensor.data, after[name].data)
        if not intact:
            raise NotTernary(f"{name} came back different from the disk: nothing was converted")


def _blocks(matrix: Bits) -> Iterator[Bits]:
    for begin in range(0, len(matrix), _ROWS):
        yield matrix[begin : begin + _ROWS]


def _tensor(dtype: str, values: npt.NDArray[Any]) -> Tensor:
    return Tensor(dtype, values.shape, np.ascontiguousarray(values).view(np.uint8).reshape(-1))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Pack a ternary checkpoint without loss.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--bits", type=int, choices=(4, 2), default=4)
    parser.add_argument("--keep", action="append", default=[], metavar="REGEX")
    args = parser.parse_args(arguments)
    staged = args.target.with_name(f"{args.target.name}.new")
    try:
        if args.target.exists():
            raise NotTernary(f"{args.target} is there already")
        shutil.rmtree(staged, ignore_errors=True)
        done = convert(args.source, staged, args.bits, [*KEPT, *args.keep])
        staged.rename(args.target)
    except (NotTernary, OSError, ValueError, KeyError) as error:
        shutil.rmtree(staged, ignore_errors=True)
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(done)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
