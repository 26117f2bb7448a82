"""What a TurboQuant decode step must read and compute, and the time that takes at least.

    python -m tests.gpu.decode_floor --gb-per-s 4300

prints a table for the article's model as one of its two ranks holds it. Nothing here needs a GPU.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from math import ceil

PRESETS = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
"""Bits of a key's and of a value's code."""


@dataclass(frozen=True)
class Shape:
    """Attention of one rank; the defaults are the article's model on two GPUs."""

    layers: int = 16
    query_heads: int = 12
    kv_heads: int = 2
    head_dim: int = 256
    preset: str = "turboquant_4bit_nc"

    @property
    def slot_bytes(self) -> int:
        """One token and KV head: key codes and norm, value codes, scale and zero; even."""
        key_bits, value_bits = PRESETS[self.preset]
        norm = 0 if key_bits == 8 else 2
        size = ceil(self.head_dim * key_bits / 8) + norm
        size += ceil(self.head_dim * value_bits / 8) + 4
        return size + size % 2


@dataclass(frozen=True)
class Work:
    """One decode step of all layers."""

    cache_bytes: int
    """Packed keys and values, read once. Queries, outputs and partial results are under 1 %."""
    macs: int
    """Multiply-adds of query times key and weight times value, without padding of tiles."""
    dequantised: int
    """Elements of keys and values dequantised once for all query heads of a KV head."""
    dequantised_by_stock: int
    """The same with one program a query head and query token, as vLLM 0.31's own kernel."""

    def floor_ms(self, gb_per_s: float) -> float:
        """No kernel is faster than its bytes at this bandwidth."""
        return self.cache_bytes / gb_per_s / 1e6


def work(shape: Shape, tokens: int, batch: int, query_len: int = 1) -> Work:
    """`batch` requests with `tokens` each in the cache, `query_len` new tokens a step."""
    slots = shape.layers * batch * tokens
    rows = slots * shape.query_heads * query_len
    return Work(
        cache_bytes=slots * shape.kv_heads * shape.slot_bytes,
        macs=2 * rows * shape.head_dim,
        dequantised=2 * slots * shape.kv_heads * shape.head_dim,
        dequantised_by_stock=2 * rows * shape.head_dim,
    )


def table(shape: Shape, gb_per_s: float, query_len: int = 1) -> str:
    lines = [
        f"{shape.preset}, {shape.layers} layers, {shape.query_heads} query and "
        f"{shape.kv_heads} KV heads of {shape.head_dim}, {query_len} query tokens, "
        f"{shape.slot_bytes} bytes a token and KV head, {gb_per_s:g} GB/s",
        f"{'tokens':>8} {'batch':>5} {'MB':>9} {'G MAC':>8} {'dequantised, G':>15} "
        f"{'by stock, G':>12} {'floor, ms':>10}",
    ]
    for tokens in (4096, 16384, 65536, 131072):
        for batch in (1, 8, 16):
            w = work(shape, tokens, batch, query_len)
            lines.append(
                f"{tokens:>8} {batch:>5} {w.cache_bytes / 1e6:>9.1f} {w.macs / 1e9:>8.2f} "
                f"{w.dequantised / 1e9:>15.2f} {w.dequantised_by_stock / 1e9:>12.2f} "
                f"{w.floor_ms(gb_per_s):>10.3f}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gb-per-s", type=float, default=672, help="default: an RTX 5070's 672")
    parser.add_argument("--query-len", type=int, default=1, help="2: verifying a draft of MTP 1")
    parser.add_argument("--preset", choices=sorted(PRESETS), default=Shape.preset)
    options = parser.parse_args()
    print(table(Shape(preset=options.preset), options.gb_per_s, options.query_len))


if __name__ == "__main__":
    main()
