"""Time of one layer's TurboQuant decode: the fused kernel, vLLM's own, and bf16 FlashAttention.

    python decode_timing.py [SITE_PACKAGES] [--candidate NAME=FILE]... [--json FILE]

prints ms a layer, what is asked for a decode included (rotation of the queries, reduction of the
pieces), for a rank of the article's model: 12 query and 2 KV heads of 256, turboquant_4bit_nc,
pages of 16 tokens. Each is captured into a CUDA graph that goes through several layers' caches, so
that none is read from the L2 cache of a card like the H200. The floor is the packed cache once at
the bandwidth at which this card copies. A candidate is another version of the fused kernel's file;
each is first compared with float64. SITE_PACKAGES as for decode_kernel.py. Fails when a kernel is
wrong; a card that is too slow or small for a point leaves its place empty.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import decode_kernel  # type: ignore[import-not-found]  # beside this file, not a package there
import torch

POINTS = [
    *((1024, 1), (1024, 8), (1024, 16), (4096, 1), (16384, 1), (16384, 8), (16384, 16)),
    *((60000, 1), (60000, 8), (60000, 16), (131072, 1)),
]
"""Tokens in the cache and requests."""

CACHES_BYTES = 256 << 20
"""So much goes by before a cache is read again."""

CASES = [
    decode_kernel.Case([3000, 65, 1999], [2, 1, 2], programs=24),
    decode_kernel.Case([20000], [2], programs=132),
    decode_kernel.Case([700, 0, 16, 33], [1, 1, 1, 1], head_dim=128, page=64),
    decode_kernel.Case([900, 64], [1, 2], "turboquant_k8v4", group=4),
    decode_kernel.Case([900, 64], [1, 2], "turboquant_k3v4_nc", head_dim=64, group=12),
    decode_kernel.Case([900, 64], [1, 2], "turboquant_3bit_nc", kv_heads=1),
]
"""What a candidate must agree on; decode_kernel.py has the rest."""

Call = Callable[[int], Any]
"""A decode with the cache of one of the layers."""


@dataclass
class Batch:
    """Requests of one length over the caches of several layers."""

    case: Any
    layers: int
    cache: torch.Tensor
    table: torch.Tensor
    query: torch.Tensor

    @classmethod
    def make(cls, tokens: int, requests: int, query_tokens: int) -> Batch:
        case = decode_kernel.Case([tokens] * requests, [query_tokens] * requests)
        key, slot = decode_kernel.slot_bytes(case)
        pages = -(-tokens // case.page)
        size = requests * pages * case.page * case.kv_heads * slot
        layers = max(2, min(32, -(-CACHES_BYTES // size)))
        torch.manual_seed(1)
        shape = (layers, requests * pages, case.page, case.kv_heads, slot)
        cache = torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda")
        for offset, value in ((key - 2, 16.0), (slot - 4, 0.1), (slot - 2, -0.8)):
            half = torch.tensor([value], dtype=torch.float16, device="cuda").view(torch.uint8)
            cache[..., offset : offset + 2] = half
        table = torch.randperm(requests * pages, device="cuda").int().view(requests, pages)
        heads = case.kv_heads * case.group
        query = torch.randn(requests * query_tokens, heads, case.head_dim, device="cuda")
        levels = decode_kernel.centroids(case.head_dim, 4).cuda()
        starts = torch.arange(requests + 1, dtype=torch.int32, device="cuda") * query_tokens
        case.tensors = {
            "block_table": table,
            "seq_lens": torch.full((requests,), tokens, dtype=torch.int32, device="cuda"),
            "query_start_loc": starts,
            "PiT": decode_kernel.hadamard(case.head_dim).cuda(),
            "centroids": levels,
        }
        return cls(case, layers, cache, table, query.bfloat16())

    def fused(self, module: Any) -> Call:
        shape = {"kv_cache_dtype": self.case.preset, "head_size": self.case.head_dim}
        kernel = module.FusedTurboQuantDecode(
            **shape,
            num_heads=self.case.kv_heads * self.case.group,
            num_kv_heads=self.case.kv_heads,
            scale=self.case.head_dim**-0.5,
            max_query_len=self.case.queries[0],
            max_num_reqs=16,
        )
        sizes = kernel.scratch(len(self.case.lengths))
        scratch = [torch.empty(size, dtype=kind, device="cuda") for size, kind in sizes]
        return lambda layer: kernel(
            self.query, self.cache[layer], **self.case.tensors, scratch=scratch
        )

    def stock(self, kernels: types.SimpleNamespace) -> Call:
        """One query token: one launch. More: a launch a request, each token with its length."""
        t, tokens = self.case.tensors, self.case.queries[0]

        def part(
            layer: int, query: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor
        ) -> Any:
            case = decode_kernel.Case([1], [1])
            case.tensors = t | {
                "query": query,
                "kv_cache": self.cache[layer],
                "block_table": table,
                "seq_lens": lengths,
            }
            return decode_kernel.stock(case, kernels)

        if tokens == 1:
            return lambda layer: part(layer, self.query, self.table, t["seq_lens"])
        back = torch.arange(tokens - 1, -1, -1, dtype=torch.int32, device="cuda")
        pieces = [
            (
                self.query[request * tokens : (request + 1) * tokens],
                self.table[request : request + 1].expand(tokens, -1).contiguous(),
                length - back,
            )
            for request, length in enumerate(self.case.lengths)
        ]
        return lambda layer: [part(layer, *piece) for piece in pieces]

    def flash(self) -> Call:
        """vLLM's FlashAttention over a bfloat16 cache of the same pages; it takes four times
        the bytes, so fewer layers' worth of it go by."""
        flash = __import__("vllm.vllm_flash_attn.flash_attn_interface", fromlist=["_"])
        t, case = self.case.tensors, self.case
        shape = (2, 2, self.cache.shape[1], case.page, case.kv_heads, case.head_dim)
        caches = torch.empty(shape, dtype=torch.bfloat16, device="cuda").normal_()
        hopper = torch.cuda.get_device_capability()[0] == 9
        version = 3 if hopper and flash.FA3_AVAILABLE else 2
        print(f"    flash is FlashAttention {version}", flush=True)
        return lambda layer: flash.flash_attn_varlen_func(
            q=self.query,
            k=caches[layer % 2, 0],
            v=caches[layer % 2, 1],
            max_seqlen_q=case.queries[0],
            cu_seqlens_q=t["query_start_loc"],
            max_seqlen_k=case.lengths[0],
            seqused_k=t["seq_lens"],
            block_table=self.table,
            causal=True,
            fa_version=version,
        )


def graph_ms(call: Call, layers: int, repeats: int = 7) -> float:
    """Median time of a call, from graphs that go once through all layers."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(0)
        call(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for layer in range(layers):
            call(layer)
    times = []
    for _ in range(repeats + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 2 / layers)
    return float(statistics.median(times[2:]))


def copying_gb_per_s() -> float:
    """Bytes read and written a second, by the device's own copy of 1 GiB."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    ms = graph_ms(lambda layer: target.copy_(source), 4)
    return float(2 * source.nbytes / ms / 1e6)


def attempt(make: Callable[[], Call], layers: int) -> float | None:
    """The time of what `make` gives; None, and the reason printed, where it does not run here."""
    try:
        return graph_ms(make(), layers)
    except Exception as error:  # out of memory, a shape that a kernel does not take
        print(f"    {type(error).__name__}: {str(error).splitlines()[0][:150]}", flush=True)
        return None


def agrees(module: Any, kernels: types.SimpleNamespace) -> bool:
    """Compare with float64, and compile what `measure` times."""
    for query_tokens in (1, 2):
        Batch.make(1024, 1, query_tokens).fused(module)(0)
    with_it = types.SimpleNamespace(**{**vars(kernels), "fused": module})
    return bool(decode_kernel.check(iter(CASES), with_it, "cuda") == 0)


def all_agree(files: dict[str, str], site_packages: str) -> dict[str, bool]:
    """`agrees` for each, in processes side by side: compiling takes longest."""
    command = [sys.executable, __file__, site_packages, "--only-compare", "--candidate"]
    running = {
        name: subprocess.Popen(
            [*command, f"{name}={file}"],
            env={**os.environ, **decode_kernel.ONE_THREAD},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, file in files.items()
    }
    right = {}
    for name, process in running.items():
        said, _ = process.communicate()
        right[name] = process.returncode == 0
        print(f"-- {name} against float64: exit {process.returncode}\n{said[-3000:]}", flush=True)
    return right


def candidate(name: str, file: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"candidate_{name}", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(
    fused: dict[str, Any], kernels: types.SimpleNamespace, tokens: int, requests: int, query: int
) -> dict[str, Any]:
    """One line of the table: ms a layer by kernel."""
    batch = Batch.make(tokens, requests, query)
    row: dict[str, Any] = {"tokens": tokens, "requests": requests, "query": query}
    row["bytes"] = batch.cache[0].nbytes
    for name, module in fused.items():
        row[name] = attempt(partial(batch.fused, module), batch.layers)
    row["stock"] = attempt(partial(batch.stock, kernels), 2)
    row["flash"] = attempt(batch.flash, 2)
    return row


def table(rows: list[dict[str, Any]], names: list[str], gb_per_s: float) -> str:
    lines = [f"{'tokens x requests, query':>26} {'floor':>7}" + "".join(f"{n:>16}" for n in names)]
    for row in rows:
        floor = row["bytes"] / gb_per_s / 1e6
        what = f"{row['tokens']} x {row['requests']}, {row['query']}"
        cells = [
            "-" if row[name] is None else f"{row[name]:.4f} {row[name] / floor:6.1f}x"
            for name in names
        ]
        lines.append(f"{what:>26} {floor:>7.4f}" + "".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("site_packages", nargs="?", default=sysconfig.get_path("purelib"))
    parser.add_argument("--candidate", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--json", type=Path, help="where to write the figures as well")
    parser.add_argument("--only-compare", action="store_true", help="with float64, no times")
    options = parser.parse_args()
    kernels = decode_kernel.load(options.site_packages)
    files = {"fused": str(kernels.fused.__file__)}
    files |= dict(each.split("=", 1) for each in options.candidate)
    if options.only_compare:
        sys.exit(not agrees(candidate(*files.popitem()), kernels))
    right = all_agree(files, options.site_packages)
    fused = {name: candidate(name, file) for name, file in files.items() if right[name]}
    gb_per_s = copying_gb_per_s()
    rows = []
    for tokens, requests in POINTS:
        for query in (2, 1):
            rows.append(measure(fused, kernels, tokens, requests, query))
            print(rows[-1], flush=True)
            torch.cuda.empty_cache()
            if options.json:
                figures = {"copying_gb_per_s": gb_per_s, "right": right, "rows": rows}
                options.json.write_text(json.dumps(figures))
    print(f"{torch.cuda.get_device_name()}, copying {gb_per_s:.0f} GB/s; ms a layer, times floor")
    print(table(rows, [*fused, "stock", "flash"], gb_per_s))
    wrong = [name for name, fine in right.items() if not fine]
    sys.exit(f"off: {', '.join(wrong)}" if wrong else 0)


if __name__ == "__main__":
    main()
