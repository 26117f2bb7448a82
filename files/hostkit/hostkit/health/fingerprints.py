"""What a failed server's last words mean, and what to do about it. Pure functions.

The texts are those of vLLM 0.31, PyTorch 2.13, the Linux kernel and systemd 252.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hostkit.release.probe import PACKAGES


@dataclass(frozen=True)
class Kind:
    """A class of failures: its name, what it is in a few words, and its remedy."""

    name: str
    what: str
    remedy: str


_LONGEST = 2000
_LIBRARY = re.compile(r"([\w.+-]+\.so[\d.]*): cannot open shared object file")

# The first that matches any line wins: from causes to what may be their consequences.
_TABLE: tuple[tuple[Kind, str], ...] = (
    (
        Kind(
            "wddm-residency",
            "Windows did not let the GPU keep its memory",
            "lower gpu_memory_utilization (all but 1.3 GiB of each card is what fits), or close "
            "what uses the GPU in Windows; the driver is not broken",
        ),
        r"make_resident: Ioctl failed: -12|MakeResident.*ENOMEM",
    ),
    (
        Kind(
            "no-gpu",
            "the driver does not give the GPU",
            "run nvidia-smi; after an update of the Windows driver: `wsl --shutdown` in Windows",
        ),
        r"CUDA driver version is insufficient|no CUDA-capable device|GPU is lost"
        r"|Failed to initialize NVML|Failed to infer device type|GPU access blocked",
    ),
    (
        Kind(
            "no-kernel-image",
            "a kernel was not built for this GPU",
            "the release was built for other GPUs: build one whose architectures include this one",
        ),
        r"no kernel image is available for execution|sm_\d+ is not compatible",
    ),
    (
        Kind(
            "abi",
            "compiled modules do not fit each other",
            "a package was changed by hand or by pip: deploy.py builds the release anew",
        ),
        r"undefined symbol|GLIBC(XX)?_[\d.]+' not found|operator [\w:]+ does not exist"
        r"|Failed to import from vllm\._C|incompatible function arguments.*_C",
    ),
    (
        Kind(
            "missing-module",
            "a Python package is not there",
            "deploy.py finds the damage and builds the release anew; a package of your own does "
            "not belong into a release",
        ),
        r"ModuleNotFoundError: No module named|importlib\.metadata\.PackageNotFoundError",
    ),
    (
        Kind(
            "host-memory",
            "the machine ran out of memory",
            "lower kv_ram_gib or max_jobs, or give WSL2 more (memory= in .wslconfig)",
        ),
        r"Out of memory: Killed process|oom-kill:|Cannot allocate memory|std::bad_alloc"
        r"|oom-kill \w* ?\(systemd\)",
    ),
    (
        Kind(
            "illegal-access",
            "a kernel used an address that is not its own",
            "under WSL2 KV offload needs the patch for host pointers: until the series has it, set "
            "kv_ram_gib = 0 and kv_ssd_gb = 0",
        ),
        r"illegal memory access|CUDA_ERROR_ILLEGAL_ADDRESS|cudaErrorIllegalAddress",
    ),
    (
        Kind(
            "shared-memory",
            "the RAM tier found no room, or the leftover of a killed server, in /dev/shm",
            "`hostkit sweep`, then start it once more; if it comes back, lower kv_ram_gib",
        ),
        r"Bad address|Insufficient space in /dev/shm|vllm_offload_\S+.*File exists",
    ),
    (
        Kind(
            "disk-full",
            "a disk is full",
            "`df -h /opt/vllm /var/lib/vllm`; lower kv_ssd_gb, or remove releases and models that "
            "nothing uses",
        ),
        r"No space left on device|Errno 28\b|Disk quota exceeded",
    ),
    (
        Kind(
            "gpu-memory",
            "the GPU's memory did not suffice",
            "lower gpu_memory_utilization, max_num_batched_tokens or max_model_len; nvidia-smi "
            "shows who else uses it",
        ),
        r"CUDA out of memory|torch\.OutOfMemoryError|CUDA error: out of memory"
        r"|Free memory on device .* less than|No available memory for the cache blocks"
        r"|To serve at least one request|GPU \d+: \d+ MiB of \d+ MiB are free",
    ),
    (
        Kind(
            "ranks-hang",
            "the GPUs waited for each other in vain",
            "under WSL2 two GPUs need NCCL_P2P_DISABLE=1 and disable-custom-all-reduce, which this "
            "deploy sets: look for an extra_env or a drop-in that undoes it",
        ),
        r"No available shared memory broadcast block|Watchdog caught collective operation timeout"
        r"|ncclUnhandledCudaError|ncclSystemError|NCCL error|RPC call to \w+ timed out",
    ),
    (
        Kind(
            "sandbox",
            "the unit does not let it do what it needs",
            "a drop-in hardens the unit further than vLLM can live with: `systemctl cat vllm`",
        ),
        r"Address family not supported by protocol|status=31/SYS"
        r"|(signal|core-dump) SYS \(systemd\)"
        r"|mbind.*Operation not permitted|set_mempolicy.*Operation not permitted"
        r"|No such file or directory: '/proc/(meminfo|cpuinfo)'",
    ),
    (
        Kind("port", "its port is taken", "stop what listens there, or set another port"),
        r"[Aa]ddress already in use|port \d+ is held by",
    ),
    (
        Kind(
            "compiler",
            "a kernel could not be compiled",
            "the CUDA toolkit, gcc and g++ of the host: deploy.py installs them; the lines before "
            "the error name the file",
        ),
        r"ninja: build stopped|nvcc fatal|ptxas fatal|Python\.h: No such file"
        r"|Failed to find C compiler|Could not find nvcc",
    ),
    (
        Kind(
            "start-limit",
            "it failed as often as the start limit allows",
            "cure the failure that came first, then `systemctl reset-failed vllm` and start it",
        ),
        r"this is start \d+ within",
    ),
    (
        Kind(
            "refused",
            "the gate before the start refused it",
            "the refusal says what to do",
        ),
        r"hostkit: refused",
    ),
    (
        Kind(
            "config",
            "vLLM does not accept what it is told",
            "change the setting that the error names (extra_serve_args first) and deploy again",
        ),
        r"unrecognized arguments|vllm( serve)?: error:|validation errors? for \w*Config"
        r"|ValueError: .*(config|argument|not supported)",
    ),
    (
        Kind(
            "engine-died",
            "the engine's process ended",
            "the journal of this failure shows its last lines",
        ),
        r"EngineDeadError|(Engine core process|Worker proc) \S+ died|EngineCore encountered a fatal"
        r"|Engine core initialization failed",
    ),
)

HANG = Kind(
    "hang",
    "requests ran and nothing came of them",
    "restart it (tasks/restart_vllm.py --data force=yes); hang_restart = True does so by itself",
)
NOT_READY = Kind(
    "not-ready",
    "it was not ready in time",
    "a first start compiles kernels: raise ready_timeout_s, or see what it was doing last",
)
UNASKED = Kind(
    "unasked-exit",
    "it ended by itself, as if it had been told to",
    "the journal of this failure shows its last lines",
)
UNKNOWN = Kind("unknown", "of no known kind", "the journal of this failure shows its last lines")


def classify(lines: Iterable[str]) -> Kind:
    """The class of a failure by what was written before it: the service's lines, the kernel's."""
    # A regular expression may take the square of a line's length.
    text = "\n".join(line[:_LONGEST] for line in lines)
    library = _LIBRARY.search(text)
    if library:
        package = PACKAGES.get(library[1], "the package that brings it")
        install = package if " " in package else f"apt-get install {package}"
        return Kind("missing-library", f"{library[1]} is not there", install)
    for kind, pattern in _TABLE:
        if re.search(pattern, text):
            return kind
    return UNKNOWN
