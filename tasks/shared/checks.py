"""What is allowed by the settings and will hurt."""

from typing import TYPE_CHECKING

from tasks.shared import patches

if TYPE_CHECKING:
    from tasks.shared.settings import Settings


_HOST_POINTERS = "vllm/v1/kv_offload/cpu/gpu_worker.py"


def warnings(settings: "Settings") -> list[str]:
    """What is allowed and will hurt, a line each with its remedy."""
    found = []
    patched = {file for patch in patches.series(settings.vllm_version) for file in patch.files}
    if settings.wsl2 and settings.kv_ram_gib and _HOST_POINTERS not in patched:
        # WSL2 gives the same memory another address on the GPU, and vLLM copies by the host's.
        found.append(
            "KV offload under WSL2 needs a patch that the series does not have: the first KV that "
            "is evicted to RAM ends the server with an illegal memory access. Set kv_ram_gib = 0 "
            "and kv_ssd_gb = 0"
        )
    return found
