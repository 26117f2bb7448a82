"""Registers and shared memory of the fused decode kernel, compiled for a GPU that is not here.

    python decode_resources.py 120 [SITE_PACKAGES]     compute capability 12.0

Prints a line for each shape; fails when one spills registers or needs more shared memory than a
multiprocessor of that kind has. Needs torch and Triton, which carries the assembler.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import decode_kernel  # type: ignore[import-not-found]  # beside this file, not a package there

SHARED_KIB = {90: 227, 120: 99}
"""What one program may have, by compute capability."""

SHAPES = [("turboquant_4bit_nc", 1), ("turboquant_4bit_nc", 2), ("turboquant_k8v4", 2)]
"""Preset and query tokens: a rank of the article's model, without and with MTP 1; fp8 keys."""

_POINTERS = {
    "Q_ptr": "*fp32",
    "KV16_ptr": "*u16",
    "Centroids_ptr": "*fp32",
    "Part_ptr": "*fp32",
    "Lse_ptr": "*fp32",
    "scale_log2e": "fp32",
    **{f"{name}_ptr": "*i32" for name in ("Block_table", "Seq_lens", "Query_start")},
}


def constants(kernels: Any, preset: str, query_tokens: int) -> dict[str, Any]:
    """What the launcher fixes for 12 query and 2 KV heads of 256, pages of 16 tokens."""
    case = decode_kernel.Case([16], [query_tokens], preset)
    layer = decode_kernel.kernel(case, kernels)
    key_bits, value_bits, corrected = decode_kernel.PRESETS[preset]
    slot = decode_kernel.slot_bytes(case)[1] // 2
    return {
        "STRIDE_POS": slot * case.kv_heads,
        "STRIDE_HEAD": slot,
        "D": case.head_dim,
        "PAGE": case.page,
        "GROUP": case.group,
        "ROWS": layer.rows,
        "KEY_BITS": key_bits,
        "VALUE_BITS": value_bits,
        "NORM_CORRECTION": corrected,
        "BLOCK_M": layer.block_m,
        "BLOCK_N": layer.block_n,
        "WARPS": layer.num_warps,
        "BLOCK_B": 16,
        "EMULATE": False,
    }


def resources(fused: Any, capability: int, fixed: dict[str, Any]) -> dict[str, int]:
    """Registers a thread, bytes spilled, bytes of shared memory."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = fused._attend_kernel
    names = list(kernel.arg_names)
    num_warps, fixed = fixed["WARPS"], {n: fixed[n] for n in names if n in fixed}
    signature = {n: "constexpr" if n in fixed else _POINTERS.get(n, "i32") for n in names}
    values = {(names.index(name),): value for name, value in fixed.items()}
    compiled = triton.compile(
        ASTSource(fn=kernel, signature=signature, constexprs=values, attrs={}),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": num_warps, "num_stages": 1},
    )
    tools = Path(triton.__file__).parent / "backends/nvidia/bin"
    newer = tools / "ptxas-blackwell"
    ptxas = newer if capability >= 100 and newer.exists() else tools / "ptxas"
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(compiled.asm["ptx"])
        file.flush()
        said = subprocess.run(
            [ptxas, "-v", f"-arch=sm_{capability}a", file.name, "-o", "/dev/null"],
            capture_output=True,
            text=True,
            check=True,
        ).stderr
    registers = re.search(r"Used (\d+) registers", said)
    spilled = re.search(r"(\d+) bytes spill stores", said)
    assert registers, said
    assert spilled, said
    return {
        "registers": int(registers[1]),
        "spilled": int(spilled[1]),
        "shared": compiled.metadata.shared,
    }


def main() -> None:
    capability = int(sys.argv[1])
    kernels = decode_kernel.load(*sys.argv[2:])
    bad = 0
    for shape in SHAPES:
        found = resources(kernels.fused, capability, constants(kernels, *shape))
        fits = not found["spilled"] and found["shared"] <= SHARED_KIB[capability] * 1024
        bad += not fits
        print("ok " if fits else "BAD", shape, found, flush=True)
    sys.exit(f"{bad} shapes do not fit" if bad else 0)


if __name__ == "__main__":
    main()
