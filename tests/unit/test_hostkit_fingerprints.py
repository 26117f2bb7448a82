"""What a server's last words are taken for; the lines are those of real failures."""

import pytest

from hostkit.health import fingerprints

# A class, a line that means it, and a line like it that does not.
CASES = [
    (
        "wddm-residency",
        "misc dxg: dxgk: dxgkio_make_resident: Ioctl failed: -12",
        "misc dxg: dxgk: dxgkio_query_adapter_info: Ioctl failed: -22",
    ),
    (
        "missing-library",
        "ImportError: libnuma.so.1: cannot open shared object file: No such file or directory",
        "libnuma.so.1 => /usr/lib/x86_64-linux-gnu/libnuma.so.1",
    ),
    (
        "missing-module",
        "ModuleNotFoundError: No module named 'compressed_tensors'",
        "INFO module named 'compressed_tensors' is imported",
    ),
    (
        "abi",
        "ImportError: /opt/x/_C.abi3.so: undefined symbol: _ZN3c105ErrorC2E",
        "WARNING a symbol is defined twice",
    ),
    (
        "abi",
        "RuntimeError: operator torchvision::nms does not exist",
        "INFO operator fusion is on",
    ),
    (
        "no-kernel-image",
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the "
        "device",
        "INFO kernel image loaded",
    ),
    (
        "host-memory",
        "Out of memory: Killed process 812 (cicc) total-vm:13000000kB, anon-rss:12000000kB",
        "INFO Available memory: 12 GiB",
    ),
    (
        "gpu-memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "INFO GPU memory is 12 GiB",
    ),
    (
        "gpu-memory",
        "ValueError: Free memory on device cuda:0 (9.7/11.9 GiB) on startup is less than desired "
        "GPU memory utilization (0.89, 10.6 GiB).",
        "INFO Free memory on device cuda:0 is 11 GiB",
    ),
    (
        "illegal-access",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "INFO memory access checks are off",
    ),
    (
        "shared-memory",
        "OSError: [Errno 14] Bad address",
        "INFO remote address 127.0.0.1",
    ),
    (
        "shared-memory",
        "RuntimeError: Insufficient space in /dev/shm for the offload region",
        "INFO sufficient space in /dev/shm",
    ),
    (
        "disk-full",
        "OSError: [Errno 28] No space left on device: '/var/lib/vllm/kv/x.bin_1.tmp'",
        "INFO space left on device: 12 GiB",
    ),
    (
        "ranks-hang",
        "INFO No available shared memory broadcast block found in 60 seconds.",
        "INFO shared memory broadcast: 10 blocks",
    ),
    (
        "sandbox",
        "RuntimeError: [enforce fail at socket.cc:92] Address family not supported by protocol",
        "INFO protocol family AF_INET",
    ),
    (
        "port",
        "OSError: [Errno 98] Address already in use",
        "INFO address in use: 127.0.0.1",
    ),
    (
        "config",
        "vllm serve: error: unrecognized arguments: --enforce-eagre",
        "INFO non-default args: {'enforce_eager': True}",
    ),
    (
        "refused",
        "hostkit: refused: model /srv/m: config.json is missing",
        "hostkit: waiting: GPU 0",
    ),
    (
        "engine-died",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
        "INFO EngineCore started",
    ),
    ("compiler", "ninja: build stopped: subcommand failed.", "INFO ninja: no work to do."),
]


@pytest.mark.parametrize(("name", "line", "harmless"), CASES)
def test_a_failure_is_known_by_its_words_and_comes_with_a_remedy(name, line, harmless):
    found = fingerprints.classify(["INFO started", line, "EngineCore failed to start."])
    assert found.name == name
    assert found.remedy
    assert fingerprints.classify([harmless]).name == "unknown"


def test_the_cause_is_told_and_not_its_consequence():
    lines = [
        "RuntimeError: Engine core initialization failed. See root cause above.",
        "torch.OutOfMemoryError: CUDA out of memory.",
        "misc dxg: dxgk: dxgkio_make_resident: Ioctl failed: -12",
    ]
    assert fingerprints.classify(lines[:1]).name == "engine-died"
    assert fingerprints.classify(lines[:2]).name == "gpu-memory"
    assert fingerprints.classify(lines).name == "wddm-residency"


def test_a_missing_library_is_told_with_its_package():
    line = "ImportError: libnuma.so.1: cannot open shared object file: No such file"
    assert fingerprints.classify([line]).remedy == "apt-get install libnuma1"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("hostkit: refused: this is start 4 within 264 s, 3 are allowed", "start-limit"),
        ("hostkit: refused for now: port 8000 is held by process 7 (python3)", "port"),
        ("hostkit: refused for now: GPU 1: 580 MiB of 12227 MiB are free, 1 needed", "gpu-memory"),
    ],
)
def test_a_refusal_is_of_the_class_of_its_reason(line, name):
    assert fingerprints.classify([line]).name == name


def test_what_nothing_is_known_of_is_said_to_be_so():
    assert fingerprints.classify([]).name == "unknown"
    assert fingerprints.classify(["Segmentation fault"]).name == "unknown"
