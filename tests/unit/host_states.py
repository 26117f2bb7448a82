"""States of a host: what is refused, what is warned of, and the twins of both that pass.

An imitation of a WSL2 machine: see machines.py.
"""

from typing import Any

from tasks.shared.facts.machine import Place, Process
from tests.unit.machines import GPU, GPUS, KIB, MOUNTS, PACKAGES, WSL_CONF, WSLCONFIG, with_place

OURS = "0::/system.slice/vllm.service"
SERVE = ("/opt/venv/bin/python", "/opt/venv/bin/vllm", "serve", "--config", "x")


def gpu_lines(*texts: str) -> str:
    return "".join(f"{text}\n" for text in texts)


def gpu(index: int = 0, **changes: str) -> str:
    """A line of nvidia-smi with one field changed, by name."""
    names = ("index", "name", "cap", "total", "free", "lanes", "most", "driver")
    fields = GPU.format(index=index, lanes=16).split(", ")
    return ", ".join((dict(zip(names, fields, strict=True)) | changes).values())


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str, list[str]]] = [
    # name, changes to the machine, to the settings, what is refused, words of the message
    ("an ARM machine", {"arch": "aarch64"}, {}, "architecture", ["aarch64", "x86_64"]),
    ("an unprivileged user", {"user": "1000"}, {}, "root", ["_sudo = True"]),
    ("Fedora", {"os": "fedora 43"}, {}, "distribution", ["fedora 43", "wsl --install"]),
    ("Ubuntu 26.04", {"os": "ubuntu 26.04"}, {}, "distribution", ["26.04", "Ubuntu-24.04"]),
    ("an old Python", {"python": "3.9.2"}, {}, "python", ["3.9.2", "3.10"]),
    ("Ubuntu 26.04's Python", {"python": "3.14.0"}, {}, "python", ["3.14.0", "Ubuntu 24.04"]),
    ("Ubuntu 26.04's glibc", {"glibc": "2.43"}, {}, "glibc", ["2.43", "rsqrt", "24.04"]),
    ("a kernel that is not WSL2's", {"kernel": "6.12.1"}, {}, "kernel", ["set wsl2 = False"]),
    ("a clock 20 minutes behind", {"clock_ahead_s": -1200.0}, {}, "clock", ["1200 s behind"]),
    (
        "WSL that was not restarted after the edit",
        {"pid1": "init", "wsl_conf": b"[boot]\r\nsystemd = true\r\n"},
        {},
        "systemd",
        ["has not been restarted", "wsl --shutdown"],
    ),
    ("no wsl.conf", {"pid1": "init", "wsl_conf": None}, {}, "systemd", ["there is no /etc"]),
    (
        "systemd in another section",
        {"pid1": "init", "wsl_conf": b"[user]\nsystemd=true\n"},
        {},
        "systemd",
        ["in section [user]", "[boot]"],
    ),
    (
        "systemd before any section",
        {"pid1": "init", "wsl_conf": b"systemd=true\n"},
        {},
        "systemd",
        ["before any section"],
    ),
    (
        "spaces inside the brackets, which WSL does not read",
        {"pid1": "init", "wsl_conf": b"[ boot ]\nsystemd=true\n"},
        {},
        "systemd",
        ["before any section"],
    ),
    (
        "systemd=false",
        {"pid1": "init", "wsl_conf": b"[boot]\nsystemd=false # later\n"},
        {},
        "systemd",
        ["systemd=false", "write systemd=true"],
    ),
    (
        "a misspelt line",
        {"pid1": "init", "wsl_conf": b"[boot]\n-systemd=true\n"},
        {},
        "systemd",
        ["does not understand"],
    ),
    (
        "an old kernel",
        {"kernel": "5.15.167.4-microsoft-standard-WSL2"},
        {},
        "WSL",
        ["5.15.167.4", "6.6", "wsl --update"],
    ),
    ("no nvidia-smi", {"smi": "", "gpus": ""}, {}, "GPUs", ["/usr/lib/wsl/lib", "in Windows"]),
    (
        "an nvidia-smi that fails",
        {"gpus": "Failed to initialize NVML: N/A\n"},
        {},
        "GPUs",
        ["Failed to initialize NVML"],
    ),
    ("a GPU too few", {"gpus": gpu_lines(gpu())}, {}, "GPUs", ["1:", "set gpus = 1"]),
    (
        "an old driver",
        {"gpus": gpu_lines(gpu(driver="576.88"), gpu(1))},
        {},
        "GPU 0 driver",
        ["576.88", "580", "in Windows"],
    ),
    (
        "one GPU that is too old",
        {"gpus": gpu_lines(gpu(), gpu(1, name="GTX 1660", cap="7.5"))},
        {},
        "GPU 1",
        ["GTX 1660", "7.5", "8.0"],
    ),
    (
        "one GPU whose memory something else uses",
        {"gpus": gpu_lines(gpu(), gpu(1, free="6400"))},
        {},
        "GPU 1 memory",
        ["6400 of 12227 MiB", "10882 MiB free (0.89", "0.52"],
    ),
    (
        "a GPU that cannot tell its memory",
        {"gpus": gpu_lines(gpu(free="[N/A]"), gpu(1))},
        {},
        "GPU 0 memory",
        ["cannot read", "wsl --shutdown"],
    ),
    (
        "a GPU smaller than set",
        {"gpus": gpu_lines(gpu(), gpu(1, total="8151", free="8000"))},
        {},
        "gpu_memory_mib",
        ["8151", "set gpu_memory_mib = 8151"],
    ),
    (
        "driver packages under WSL2",
        {"packages": PACKAGES + "ii  cuda-drivers 580\nii  libnvidia-compute-580:amd64 580.1\n"},
        {},
        "driver packages",
        ["cuda-drivers", "libnvidia-compute-580", "apt-get purge"],
    ),
    (
        "a driver installed by hand under WSL2",
        {"libcuda": "/usr/lib/x86_64-linux-gnu/libcuda.so.1\n"},
        {},
        "driver files",
        ["sudo rm /usr/lib/x86_64-linux-gnu/libcuda.so.1"],
    ),
    (
        "the repository as cuda-keyring adds it, with another keyring",
        {
            "apt_sources": "/etc/apt/sources.list.d/cuda-wsl-ubuntu-x86_64.list:deb [signed-by=/x]"
            " https://developer.download.nvidia.com/compute/cuda/repos/wsl-ubuntu/x86_64/ /\n"
        },
        {},
        "apt sources",
        ["cuda-wsl-ubuntu-x86_64.list", "purge cuda-keyring"],
    ),
    ("no toolkit", {"nvcc": ""}, {}, "CUDA toolkit", ["/bin/nvcc", "13.0", "cuda-toolkit-13-0"]),
    ("another toolkit", {"nvcc": "release 12.8, V12"}, {}, "CUDA toolkit", ["nvcc is 12.8"]),
    (
        "more pinned memory than WSL2 gives",
        {},
        {"kv_ram_gib": 14.0},
        "RAM",
        ["pins half", "wsl_memory_gib"],
    ),
    ("too little RAM", {"meminfo": "MemTotal: 9437184 kB\n"}, {}, "RAM", ["9.0 GiB", "10.0 GiB"]),
    ("a small /dev/shm", with_place("shm", Place("/dev/shm", 3 * KIB // 2, KIB)), {}, "/dev/shm",
     ["1.5 GiB", "2.25 GiB", "remount"]),
    ("a full disk", with_place("releases", Place("/opt/vllm", 99 * KIB, 3 * KIB)), {}, "disk",
     ["3.0 GiB", "12 GiB"]),
    ("a full Windows drive", with_place("windows", Place("/mnt/c", 99 * KIB, 15 * KIB)), {},
     "drive C:", ["15 GiB", "virtual disk"]),
    ("KV on a Windows drive", with_place("kv", Place("/mnt/c/kv")), {}, "kv_ssd_dir",
     ["/mnt/c/kv", "9p", "inside WSL"]),
    ("KV on a mount with a space", with_place("kv", Place("/mnt/my disk/kv")), {}, "kv_ssd_dir",
     ["/mnt/my disk/kv", "9p"]),
    ("KV in RAM", with_place("kv", Place("/dev/shm/kv")), {}, "kv_ssd_dir", ["tmpfs", "is lost"]),
    ("KV in a container's layer",
     {"mounts": "overlay / overlay rw 0 0\n"}, {}, "kv_ssd_dir", ["overlay"]),
    ("KV on FUSE", {"mounts": MOUNTS + "s /var/lib/vllm fuse.sshfs rw 0 0\n"}, {}, "kv_ssd_dir",
     ["fuse.sshfs"]),
    (
        "a port that another server holds",
        {"listeners": {8000: (Process(7, ("python3", "-m", "http.server")),)}},
        {},
        "port 8000",
        ["port 8000 is held by process 7 (python3 -m http.server)", "kill 7"],
    ),
    (
        "a port that Windows or another distribution holds",
        {"listeners": {8000: ()}},
        {},
        "port 8000",
        ["does not show", "another WSL distribution", "or set port"],
    ),
    (
        "a Prometheus that somebody else runs",
        {"listeners": {9090: (Process(7, ("/usr/bin/prometheus",), "0::/prometheus.service"),)}},
        {},
        "port 9090",
        ["held by process 7 (/usr/bin/prometheus)", "or set metrics_port"],
    ),
]  # fmt: skip


WARNED: list[tuple[str, dict[str, Any], dict[str, Any], str, list[str]]] = [
    ("a clock two minutes ahead", {"clock_ahead_s": 120.0}, {}, "clock", ["120 s ahead"]),
    ("a wsl.conf that will lose systemd", {"wsl_conf": None}, {}, "wsl.conf", ["next start"]),
    (
        "Windows line ends in wsl.conf",
        {"wsl_conf": WSL_CONF.replace(b"\n", b"\r\n")},
        {},
        "wsl.conf",
        ["line ends"],
    ),
    (
        "a WSL before 2.7",
        {"wsl_version": "WSL-Version: 2.6.3.0\r\n".encode("utf-16-le")},
        {},
        "WSL",
        ["2.6.3.0", "2.7.0", "wsl --update"],
    ),
    (
        "the kernel of a WSL before 2.7 that tells no version",
        {"wsl_version": b"", "kernel": "6.6.87.2-microsoft-standard-WSL2"},
        {},
        "WSL",
        ["6.6.87.2", "2.7.0"],
    ),
    ("no drive C:", {"windows": ""}, {}, ".wslconfig", ["automount"]),
    (
        "two Windows users",
        {"windows_users": ("a", "b"), "wslconfigs": {}},
        {},
        ".wslconfig",
        ["a, b", "set windows_user"],
    ),
    (
        "a .wslconfig that WSL cannot read",
        {"wslconfigs": {"me": WSLCONFIG.decode().encode("utf-16-le")}},
        {},
        ".wslconfig",
        ["UTF-16", "save it as UTF-8"],
    ),
    (
        "less memory than .wslconfig says",
        {"wslconfigs": {"me": WSLCONFIG.replace(b"24GB", b"28GB")}},
        {},
        ".wslconfig memory",
        ["memory=28GB", "23.5 GiB", "wsl --shutdown"],
    ),
    (
        "a memory that WSL ignores",
        {"wslconfigs": {"me": WSLCONFIG.replace(b"24GB", b"24 gigs")}},
        {},
        ".wslconfig memory",
        ["24 gigs", "such as 24GB"],
    ),
    (
        "another memory than the setting",
        {},
        {"wsl_memory_gib": 28},
        ".wslconfig memory",
        ["memory=24GB", "28GB"],
    ),
    (
        "WSL that stops when it is idle",
        {"wslconfigs": {"me": b"[wsl2]\nmemory=24GB\n"}},
        {},
        "keep-alive",
        ["instanceIdleTimeout=not set", "windows.ps1"],
    ),
    (
        "WSL that stops when it is idle, and is not to be told otherwise",
        {"wslconfigs": {"me": WSLCONFIG.replace(b"=-1", b"=60000")}},
        {"wsl_keep_alive": False},
        "keep-alive",
        ["=60000", "set wsl_keep_alive = True"],
    ),
    ("another network mode", {}, {"wsl_networking": "mirrored"}, "network", ["mirrored"]),
    (
        "a card on PCIe x4",
        {"gpus": gpu_lines(gpu(), gpu(1, lanes="4"))},
        {},
        "GPU 1 PCIe",
        ["x4", "x16", "all-reduce", "works as it is"],
    ),
    (
        "a card of another generation",
        {"gpus": gpu_lines(gpu(name="RTX 4090", cap="8.9"), gpu(1))},
        {},
        "GPU 0",
        ["RTX 4090", "8.9", "12.0"],
    ),
    (
        "bigger cards than set",
        {"gpus": GPUS.replace("12227", "16303").replace("11800", "15900")},
        {},
        "gpu_memory_mib",
        ["set gpu_memory_mib = 16303"],
    ),
    (
        "the distribution's own nvcc",
        {"packages": PACKAGES + "ii  nvidia-cuda-toolkit 12.0.140\n"},
        {},
        "nvidia-cuda-toolkit",
        ["purge"],
    ),
    (
        "too little RAM to compile",
        {"meminfo": "MemTotal: 20971520 kB\n", "wslconfigs": {"me": b"[wsl2]\nvmIdleTimeout=-1\n"
         b"[general]\ninstanceIdleTimeout=-1\n"}},
        {},
        "RAM",
        ["20.0 GiB", "22.0 GiB", "wsl_swap_gib"],
    ),
    ("no room for the SSD tier", with_place("kv", Place("/var/lib/vllm/kv", 99 * KIB, 80 * KIB)),
     {}, "disk of the SSD tier", ["86 GB", "150 GB"]),
    ("a Windows drive that the tier will fill",
     with_place("windows", Place("/mnt/c", 999 * KIB, 90 * KIB)), {}, "drive C:", ["90 GiB"]),
    ("a disk that the kernel made read-only", {"mounts": MOUNTS.replace("ext4 rw", "ext4 ro")}, {},
     "disk", ["read-only under /opt/vllm and /var/lib/vllm/kv", "dmesg"]),
    ("a model on a Windows drive", with_place("model", Place("/mnt/c/models/m")), {}, "model",
     ["9p", "copy it"]),
    (
        "a vLLM that somebody runs",
        {"engines": (Process(99, SERVE, "0::/user.slice/user-1000.slice"),)},
        {},
        "other vLLM",
        ["process 99", "kill 99"],
    ),
]  # fmt: skip


PASSES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("the production machine", {}, {}),
    ("Debian 12", {"os": "debian 12", "python": "3.11.2", "glibc": "2.36"}, {}),
    ("Debian 13", {"os": "debian 13", "python": "3.13.5", "glibc": "2.41"}, {}),
    ("no Python yet", {"python": ""}, {}),
    ("a clock half a minute behind", {"clock_ahead_s": -30.0}, {}),
    ("wsl.conf in capitals, with spaces", {"wsl_conf": b"[Boot]\n  SYSTEMD = True # yes\n"}, {}),
    ("wsl.conf with other sections", {"wsl_conf": b"[user]\ndefault=me\n[boot]\nsystemd=1\n"}, {}),
    ("a newer kernel", {"kernel": "6.18.2.1-microsoft-standard-WSL2", "wsl_version": b""}, {}),
    ("a .wslconfig in UTF-8 with a mark", {"wslconfigs": {"me": b"\xef\xbb\xbf" + WSLCONFIG}}, {}),
    (
        "a .wslconfig in UTF-16",
        {"wslconfigs": {"me": b"\xff\xfe" + WSLCONFIG.decode().encode("utf-16-le")}},
        {},
    ),
    (
        "several Windows users, one chosen",
        {"windows_users": ("me", "you"), "wslconfigs": {"you": b"", "me": WSLCONFIG}},
        {"windows_user": "me"},
    ),
    (
        "no memory in .wslconfig",
        {"wslconfigs": {"me": WSLCONFIG.replace(b"memory=24GB", b"#memory=8GB")}},
        {},
    ),
    ("a width that nvidia-smi does not tell", {"gpus": gpu_lines(gpu(lanes="[N/A]"), gpu(1))}, {}),
    ("one card on PCIe x4 alone", {"gpus": gpu_lines(gpu(lanes="4"))}, {"gpus": 1}),
    ("more GPUs than are used", {"gpus": gpu_lines(gpu(), gpu(1), gpu(2, free="9"))}, {}),
    (
        "the repository as tasks/cuda.py adds it, beside others",
        {
            "apt_sources": "/etc/apt/sources.list.d/vllm-cuda.sources:URIs:"
            " https://developer.download.nvidia.com/compute/cuda/repos/wsl-ubuntu/x86_64/\n"
            "/etc/apt/sources.list.d/x.sources:URIs: https://developer.download.nvidia.com/else/\n"
        },
        {},
    ),
    ("a removed driver's settings", {"packages": PACKAGES + "rc  nvidia-driver-580 580\n"}, {}),
    (
        "GPUs that our own server uses",
        {
            "unit": "active",
            "gpus": GPUS.replace("11800", "400"),
            "listeners": {8000: (Process(7, SERVE, OURS),)},
            "engines": (Process(7, SERVE, OURS), Process(8, ("VLLM::Worker_TP0",), OURS)),
        },
        {},
    ),
    ("a small /dev/shm without offload", with_place("shm", Place("/dev/shm", KIB, KIB)),
     {"kv_ram_gib": 0.0, "kv_ssd_gb": 0}),
    (
        "a Prometheus of ours",
        {"listeners": {9090: (Process(7, ("prometheus",), "0::/vllm-prometheus.service"),)}},
        {},
    ),
    (
        "a Prometheus of somebody else's where we run none",
        {"listeners": {9090: (Process(7, ("prometheus",), "0::/prometheus.service"),)}},
        {"metrics": False},
    ),
    ("a model on a disk that is read-only",
     {"mounts": MOUNTS + "x /var/lib/vllm/models ext4 ro,errors=remount-ro 0 0\n"}, {}),
    ("KV anywhere when there is no SSD tier", with_place("kv", Place("/mnt/c/kv")),
     {"kv_ssd_gb": 0}),
    ("a folder that merely begins like a mount", with_place("kv", Place("/mnt/cc/kv")), {}),
]  # fmt: skip
