"""A host as the checks see it: the production machine, in the words of its own tools.

An imitation of a WSL2 machine; what each tool prints is in the form that it has there.
"""

from dataclasses import replace
from typing import Any

from tasks.shared.facts.machine import Machine, Place

WSL_CONF = b"[boot]\nsystemd=true\n"
WSLCONFIG = (
    b"[wsl2]\r\nmemory=24GB\r\nvmIdleTimeout=-1\r\n\r\n[general]\r\ninstanceIdleTimeout=-1\r\n"
)
GPU = "{index}, NVIDIA GeForce RTX 5070, 12.0, 12227, 11800, {lanes}, 16, 581.80"
GPUS = f"{GPU.format(index=0, lanes=16)}\n{GPU.format(index=1, lanes=8)}\n"
MOUNTS = (
    "/dev/sdd / ext4 rw,relatime,discard 0 0\n"
    "none /dev/shm tmpfs rw,nosuid,nodev,noatime 0 0\n"
    "C:\\134 /mnt/c 9p rw,noatime,aname=drvfs;path=C:\\;uid=1000,trans=fd 0 0\n"
    "D:\\134 /mnt/my\\040disk 9p rw,noatime,aname=drvfs;path=D:\\ 0 0\n"
)
PACKAGES = "ii  cuda-toolkit-13-0 13.0.3-1\nii  libnvidia-container1 1.18.0-1\n"
NVCC = "Cuda compilation tools, release 13.0, V13.0.88\n"
KIB = 1024 * 1024  # a GiB in KiB


def good() -> Machine:
    """A machine to which nothing is objected."""
    return Machine(
        pid1="systemd",
        arch="x86_64",
        user="0",
        os="ubuntu 24.04",
        kernel="6.6.114.1-microsoft-standard-WSL2",
        python="3.12.3",
        glibc="2.39",
        unit="inactive",
        meminfo="MemTotal:       24660248 kB\nMemFree:        20000000 kB\n",
        mounts=MOUNTS,
        packages=PACKAGES,
        places={
            "model": Place("/var/lib/vllm/models/m", 1000 * KIB, 600 * KIB),
            "kv": Place("/var/lib/vllm/kv", 1000 * KIB, 600 * KIB),
            "releases": Place("/opt/vllm", 1000 * KIB, 600 * KIB),
            "shm": Place("/dev/shm", 12 * KIB, 12 * KIB),
            "windows": Place("/mnt/c", 1900 * KIB, 700 * KIB),
        },
        smi="/usr/lib/wsl/lib/nvidia-smi",
        gpus=GPUS,
        nvcc=NVCC,
        wsl_conf=WSL_CONF,
        windows="/mnt/c",
        windows_users=("me",),
        wslconfigs={"me": WSLCONFIG},
        wsl_version="WSL version: 2.7.0.0\r\nKernel version: 6.6.114.1-1\r\n".encode("utf-16-le"),
        wslpath="\\\\wsl.localhost\\Ubuntu-24.04\\",
    )


def with_place(name: str, place: Place) -> dict[str, Any]:
    """The change that puts one folder elsewhere."""
    return {"places": {**good().places, name: place}}


def changed(**changes: Any) -> Machine:
    """The good machine with something else about it."""
    return replace(good(), **changes)
