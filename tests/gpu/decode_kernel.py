"""The fused TurboQuant decode kernel against a float64 reference; a program of its own.

    python decode_kernel.py small [SITE_PACKAGES]     on the CPU, in Triton's interpreter
    python decode_kernel.py all [SITE_PACKAGES]       on the GPU, beside vLLM's own kernel

SITE_PACKAGES, by default this interpreter's own, holds the patched `vllm`. Only its kernels are
imported, with stand-ins for what they ask of the rest: no vLLM of this machine's platform is
needed, torch and Triton are.
A line is printed for each case, and the program fails when one of them is off. On the GPU nearly
all of the time is compilation: the cases are dealt out to a process for each core, up to 16.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import sysconfig
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any

if sys.argv[1:2] == ["small"]:
    os.environ["TRITON_INTERPRET"] = "1"
os.environ["TQ_DECODE"] = "fused"

import torch

PRESETS = {
    "turboquant_k8v4": (8, 4, False),
    "turboquant_4bit_nc": (4, 4, True),
    "turboquant_k3v4_nc": (3, 4, True),
    "turboquant_3bit_nc": (3, 3, True),
}
"""Bits of a key's and of a value's code, and whether keys are renormalised."""

HEAD_DIMS = (64, 128, 256)

ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""For processes side by side: each would start a thread for every core, and all of them wait."""

TOLERANCE = {"cuda": 1.3, "cpu": 0.5}
"""Times the error of rounding the exact result to bfloat16, which is all that stock's has.

The interpreter rounds to bfloat16 towards zero, so there the result is float32.
"""


@dataclass
class Case:
    """Requests by the length of their context and of their query, and the shape of a layer."""

    lengths: list[int]
    queries: list[int]
    preset: str = "turboquant_4bit_nc"
    head_dim: int = 256
    kv_heads: int = 2
    group: int = 6
    page: int = 16
    programs: int = 24
    seed: int = 1
    tensors: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{self.preset} D {self.head_dim} GQA {self.group} KV heads {self.kv_heads} page "
            f"{self.page} contexts {self.lengths} queries {self.queries}"
        )


def load(site_packages: str = sysconfig.get_path("purelib")) -> types.SimpleNamespace:
    """The kernels of a patched vLLM: `fused`, `decode` and `store`, modules."""
    triton = __import__("triton")
    language = __import__("triton.language").language

    def module(name: str, **content: Any) -> None:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(content)

    cuda = torch.cuda.is_available()
    platform = types.SimpleNamespace(
        is_cuda=lambda: True,
        is_rocm=lambda: False,
        is_cuda_alike=lambda: cuda,
        has_device_capability=lambda wanted: True,
        num_compute_units=lambda device=0: (
            torch.cuda.get_device_properties(device).multi_processor_count if cuda else 24
        ),
    )
    module("vllm", __path__=[f"{site_packages}/vllm"])
    module("vllm.platforms", current_platform=platform)
    module("vllm.triton_utils", triton=triton, tl=language)
    kernels = __import__("vllm.v1.attention.ops", fromlist=["_"])
    names = {"fused": "triton_turboquant_fused", "decode": "triton_turboquant_decode"}
    names["store"] = "triton_turboquant_store"
    for name in names.values():
        __import__(f"vllm.v1.attention.ops.{name}")
    return types.SimpleNamespace(**{key: getattr(kernels, name) for key, name in names.items()})


def centroids(head_dim: int, bits: int) -> torch.Tensor:
    """The best 2**bits levels for a normal of variance 1 / head_dim (Lloyd and Max)."""
    grid = torch.linspace(-6, 6, 20001, dtype=torch.float64)
    density = torch.exp(-grid * grid / 2)
    levels = torch.linspace(-2.5, 2.5, 2**bits, dtype=torch.float64)
    for _ in range(300):
        nearest = torch.bucketize(grid, (levels[1:] + levels[:-1]) / 2)
        mass = torch.zeros_like(levels).index_add_(0, nearest, density)
        levels = torch.zeros_like(levels).index_add_(0, nearest, density * grid) / mass
    levels = (levels - levels.flip(0)) / 2
    return (levels / math.sqrt(head_dim)).float()


def hadamard(size: int) -> torch.Tensor:
    matrix = torch.ones(1, 1)
    while matrix.shape[0] < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix / math.sqrt(size)


def slot_bytes(case: Case) -> tuple[int, int]:
    """Bytes of a packed key, and of key and value together."""
    key_bits, value_bits, _ = PRESETS[case.preset]
    key = case.head_dim if key_bits == 8 else case.head_dim * key_bits // 8 + 2
    size = key + case.head_dim * value_bits // 8 + 4
    return key, size + size % 2


def fill(case: Case, kernels: types.SimpleNamespace, device: str) -> None:
    """Random queries and a cache of random pages; what no request owns holds random bytes."""
    key_bits, value_bits, _ = PRESETS[case.preset]
    draw = torch.Generator().manual_seed(case.seed)
    pages = [-(-length // case.page) for length in case.lengths]
    total = sum(pages) + 3
    key, slot = slot_bytes(case)
    shape = (total, case.page, case.kv_heads, slot)
    cache = torch.randint(0, 256, shape, dtype=torch.uint8, generator=draw).to(device)
    order = iter(torch.randperm(total, generator=draw).tolist())
    table = torch.full((len(pages), max(pages) + 2), 2**30, dtype=torch.int32)
    slots: list[int] = []
    for request, count in enumerate(pages):
        for index in range(count):
            table[request, index] = page = next(order)
            slots += range(page * case.page, (page + 1) * case.page)
        beyond = count * case.page - case.lengths[request]
        slots = slots[: len(slots) - beyond]
    tokens = (len(slots), case.kv_heads)
    sizes = torch.rand(*tokens, 1, generator=draw)
    keys = torch.randn(*tokens, case.head_dim, generator=draw) * (0.5 + sizes)
    values = torch.randn(*tokens, case.head_dim, generator=draw) * torch.exp(4 * sizes - 2) + 0.3
    values[::7] = 0.25  # a constant vector is stored with scale 0
    levels = centroids(case.head_dim, value_bits if key_bits == 8 else key_bits).to(device)
    rotation = hadamard(case.head_dim).to(device)
    kernels.store.triton_turboquant_store(
        keys.to(device, torch.bfloat16),
        values.to(device, torch.bfloat16),
        cache,
        torch.tensor(slots, dtype=torch.int32, device=device),
        rotation,
        (levels[1:] + levels[:-1]) / 2,
        mse_bits=0 if key_bits == 8 else key_bits,
        key_packed_size=key,
        value_quant_bits=value_bits,
        key_fp8=key_bits == 8,
    )
    starts = [0, *accumulate(case.queries)]
    query = torch.randn(starts[-1], case.kv_heads * case.group, case.head_dim, generator=draw)
    case.tensors = {
        "query": (2 * query).to(device, torch.bfloat16),
        "kv_cache": cache,
        "block_table": table.to(device),
        "seq_lens": torch.tensor(case.lengths, dtype=torch.int32, device=device),
        "query_start_loc": torch.tensor(starts, dtype=torch.int32, device=device),
        "PiT": rotation,
        "centroids": levels,
    }


def unpack(packed: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    """Codes of so many bits each from bytes, the lowest bits first."""
    each = (packed.long()[..., None] >> torch.arange(8, device=packed.device)) & 1
    each = each.flatten(-2)[..., : count * bits].unflatten(-1, (count, bits))
    return (each << torch.arange(bits, device=packed.device)).sum(-1)


def dequantise(case: Case, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys (rotated, unless fp8) and values of slots [..., bytes], in float64."""
    key_bits, value_bits, corrected = PRESETS[case.preset]
    key, _ = slot_bytes(case)

    def half(offset: int) -> torch.Tensor:
        return slots[..., offset : offset + 2].contiguous().view(torch.float16).double()

    if key_bits == 8:
        keys = slots[..., :key].contiguous().view(torch.float8_e4m3fn).to(torch.float64)
    else:
        levels = case.tensors["centroids"].double()
        keys = levels[unpack(slots[..., : key - 2], key_bits, case.head_dim)]
        if corrected:
            keys = keys / torch.sqrt((keys * keys).sum(-1, keepdim=True) + 1e-16)
        keys = keys * half(key - 2)
    end = key + case.head_dim * value_bits // 8
    codes = unpack(slots[..., key:end], value_bits, case.head_dim)
    return keys, codes * half(end) + half(end + 2)


def reference(case: Case) -> torch.Tensor:
    """Attention in float64, from the same packed cache."""
    t = case.tensors
    query = t["query"].double()
    if PRESETS[case.preset][0] < 8:
        query = query @ t["PiT"].double()
    out = torch.zeros_like(query)
    starts = [0, *accumulate(case.queries)]
    for request, length in enumerate(case.lengths):
        if not length:
            continue
        pages = t["block_table"][request, : -(-length // case.page)].long()
        keys, values = dequantise(case, t["kv_cache"][pages].flatten(0, 1)[:length])
        q = query[starts[request] : starts[request + 1]].unflatten(1, (case.kv_heads, case.group))
        scores = torch.einsum("qhgd,nhd->hgqn", q, keys) / math.sqrt(case.head_dim)
        seen = torch.arange(length, device=q.device)[None] - (length - q.shape[0])
        later = seen > torch.arange(q.shape[0], device=q.device)[:, None]
        weights = scores.masked_fill(later, -math.inf).softmax(-1)
        part = torch.einsum("hgqn,nhd->qhgd", weights, values)
        out[starts[request] : starts[request + 1]] = part.flatten(1, 2)
    return out


def kernel(case: Case, kernels: types.SimpleNamespace) -> Any:
    """The fused decode of a layer of this shape, for `programs` pieces at once."""
    shape = {
        "kv_cache_dtype": case.preset,
        "num_heads": case.group * case.kv_heads,
        "num_kv_heads": case.kv_heads,
        "head_size": case.head_dim,
        "max_query_len": max(case.queries),
    }
    refused = kernels.fused.fused_decode_refusal(
        **shape, dtype=torch.bfloat16, max_num_reqs=len(case.lengths)
    )
    if refused:
        raise AssertionError(f"{case}: refused: {refused}")
    found = kernels.fused.FusedTurboQuantDecode(
        **shape, scale=case.head_dim**-0.5, max_num_reqs=len(case.lengths)
    )
    found.programs = case.programs
    return found


def stock(case: Case, kernels: types.SimpleNamespace) -> torch.Tensor:
    """vLLM's own kernel, which takes one query token a request."""
    key_bits, value_bits, corrected = PRESETS[case.preset]
    t = case.tensors
    found: torch.Tensor = kernels.decode.triton_turboquant_decode_attention(
        t["query"],
        t["kv_cache"],
        t["block_table"],
        t["seq_lens"],
        t["PiT"],
        t["centroids"],
        case.head_dim**-0.5,
        0 if key_bits == 8 else key_bits,
        slot_bytes(case)[0],
        value_bits,
        key_fp8=key_bits == 8,
        norm_correction=corrected,
        PiT=t["PiT"],
    )
    return found


def error(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.double() - exact).norm() / exact.norm())


def small() -> Iterator[Case]:
    """For the interpreter: every preset, group and edge once, in seconds."""
    for preset in PRESETS:
        yield Case([33, 64, 5], [2, 1, 2], preset, HEAD_DIMS[0], 1, 3)
    yield Case([130, 0, 16], [1, 1, 1], head_dim=128, kv_heads=2, group=1, page=32)
    yield Case([65], [2], head_dim=128, kv_heads=1, group=12)
    yield Case([70], [2], head_dim=256, kv_heads=1, group=6)
    yield Case([1, 2, 200], [1, 2, 1], head_dim=128, kv_heads=1, group=2, page=128, programs=1)


def everything() -> Iterator[Case]:
    """For the GPU: presets, head dims, groups, batches, pages and ragged lengths crossed."""
    draw = torch.Generator().manual_seed(7)

    def integer(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (1,), generator=draw))

    seed = 0
    for preset in PRESETS:
        for head_dim in HEAD_DIMS:
            for group in range(1, 13):
                seed += 1
                batch = (1, 2, 3, 8, 17, 32)[seed % 6]
                page = (16, 32, 64, 128)[seed % 4]
                queries = [1 + (seed + i) % 2 if group < 9 else 1 for i in range(batch)]
                edges = [page, page + 1, 2 * page - 1, 64, 65, 3000]
                lengths = [edges[i] if i < 3 else integer(2, 2500) for i in range(batch)]
                lengths[-1] = edges[seed % 6]
                programs = (1, 24, 264)[seed % 3]
                yield Case(
                    lengths, queries, preset, head_dim, 1 + seed % 4, group, page, programs, seed
                )


def check(cases: Iterator[Case], kernels: types.SimpleNamespace, device: str) -> int:
    """Print a line for each case; return how many are off."""
    bad = 0
    for case in cases:
        fill(case, kernels, device)
        exact = reference(case)
        rounding = error(exact.to(torch.bfloat16), exact)
        if device == "cpu":
            case.tensors["query"] = case.tensors["query"].float()
        found = error(kernel(case, kernels)(**case.tensors), exact)
        line = f"{found:.6f} fused, {rounding:.6f} rounding"
        if device != "cpu" and max(case.queries) == 1 and min(case.lengths) > 0:
            line += f", {error(stock(case, kernels), exact):.6f} stock"
        right = found < TOLERANCE[device] * rounding
        bad += not right
        print(f"{'ok ' if right else 'BAD'} {line}: {case}", flush=True)
    return bad


def deal(site_packages: list[str], hands: int) -> int:
    """Run every case in so many processes of this program; the highest exit status."""
    path = site_packages or [sysconfig.get_path("purelib")]
    command = [sys.executable, __file__, "all", *path]
    environment = {**os.environ, **ONE_THREAD}
    running = [
        subprocess.Popen([*command, f"{hand}/{hands}"], env=environment) for hand in range(hands)
    ]
    return max(abs(process.wait()) for process in running)


def main() -> None:
    which, *rest = sys.argv[1:]
    hand = rest.pop().split("/") if len(rest) > 1 else []  # "I/N": of every N cases one
    if which == "all" and not hand:
        sys.exit(deal(rest, min(16, os.cpu_count() or 1)))
    kernels = load(*rest)
    cases, device = (small(), "cpu") if which == "small" else (everything(), "cuda")
    if hand:
        cases = islice(cases, int(hand[0]), None, int(hand[1]))
    bad = check(cases, kernels, device)
    sys.exit(f"{bad} cases are off" if bad else 0)


if __name__ == "__main__":
    main()
