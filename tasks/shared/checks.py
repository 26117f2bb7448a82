"""Is this host one that the deploy can work on? Pure judgement of what was found."""

from typing import TYPE_CHECKING

from tasks.shared import patches, releases
from tasks.shared.facts.machine import Machine

if TYPE_CHECKING:
    from tasks.shared.settings import Settings


def refusals(machine: Machine, settings: "Settings") -> list[str]:
    """Why the deploy must not begin, a line each with its remedy; empty for a good host."""
    found = []
    if machine.pid1 != "systemd":
        found.append(
            f"systemd is not running (process 1 is {machine.pid1 or 'unknown'}): under WSL2 write "
            "systemd=true into the [boot] section of /etc/wsl.conf, then run `wsl --shutdown` in "
            "Windows"
        )
    if machine.user != "0":
        found.append("commands do not run as root: set _sudo = True for this host in inventory.py")
    if machine.arch != "x86_64":
        found.append(f"the architecture is {machine.arch}: vLLM's wheels here are for x86_64")
    if machine.os.split(" ")[0] not in ("debian", "ubuntu"):
        found.append(f"the distribution is {machine.os}: Debian or Ubuntu is expected")
    pythons = releases.PYTHONS[settings.accelerator]
    if machine.python and ".".join(machine.python.split(".")[:2]) not in pythons:
        found.append(
            f"/usr/bin/python3 is {machine.python}: the {settings.accelerator} build of vLLM is "
            f"locked for {', '.join(pythons)}"
        )
    if machine.is_wsl2 != settings.wsl2:
        kernel = "is" if machine.is_wsl2 else "is not"
        found.append(f"the kernel {machine.kernel} {kernel} WSL2's: set wsl2 = {machine.is_wsl2}")
    return found


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
