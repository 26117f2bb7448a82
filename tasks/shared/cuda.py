"""The CUDA toolkit that a release needs: which version, from where, and what must not come along.

Under WSL2 the driver is Windows', mounted at /usr/lib/wsl. A Linux driver package puts its own
libcuda in front of it, and no program sees a GPU any more.
"""

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.shared.release import locks, releases

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

ARCHITECTURE = "sm_120"
"""What the check compiles for: the RTX 50 series."""

KEYRING = "/usr/share/keyrings/vllm-cuda.gpg"
SOURCE_FILE = "/etc/apt/sources.list.d/vllm-cuda.sources"
PIN_FILE = "/etc/apt/preferences.d/vllm-no-nvidia-driver"

DRIVERS = (
    *("cuda", "cuda-[0-9]*", "cuda-runtime-*", "cuda-demo-suite-*", "cuda-drivers*"),
    *("cuda-compat-*", "libcuda1*", "libcudadebugger1*", "libnvcuvid1*", "libnvoptix1*"),
    # All of libnvidia-* but libnvidia-container*, which works with Windows' driver.
    *("libnvidia-[!c]*", "libnvidia-c[!o]*", "libnvidia-co[!n]*"),
    *("linux-modules-nvidia-*", "linux-objects-nvidia-*", "linux-signatures-nvidia-*"),
    *("nvidia-alternative*", "nvidia-compute-utils-*", "nvidia-dkms-*", "nvidia-driver*"),
    *("nvidia-egl-*", "nvidia-fabricmanager*", "nvidia-firmware-*", "nvidia-headless-*"),
    *("nvidia-kernel-*", "nvidia-legacy-*", "nvidia-modprobe*", "nvidia-open*"),
    *("nvidia-opencl-icd*", "nvidia-persistenced*", "nvidia-settings*", "nvidia-smi*"),
    *("nvidia-tesla-*", "nvidia-utils-*", "nvidia-vdpau-driver*", "nvidia-vulkan-*"),
    *("nvidia-xconfig*", "xserver-xorg-video-nvidia*"),
)
"""Every package that is a part of a driver, or has one as a dependency: names as apt's globs."""

_NVIDIA = "https://developer.download.nvidia.com/compute/cuda/repos"
_RSA = "EB693B3035CD5710E231E123A4B469963BF863CC"  # 3bf863cc.pub
# Debian 13's apt takes no SHA-1 any more, which binds the key above to its name.
_SHA256 = "02182E60104FCDC26EAE1B8597A5D4CB8793F200"  # 8793F200.pub

_REPOSITORIES = {
    "debian 12": ("debian12", _RSA),
    "debian 13": ("debian13", _SHA256),
    "ubuntu 22.04": ("ubuntu2204", _RSA),
    "ubuntu 24.04": ("ubuntu2404", _RSA),
}
"""Distribution to the name and the key of NVIDIA's repository for it."""

DISTRIBUTIONS = tuple(_REPOSITORIES)


@dataclass(frozen=True)
class Repository:
    """A flat apt repository and the fingerprint of the only key that may sign it."""

    url: str
    fingerprint: str


def repository(settings: "Settings", os: str) -> Repository | None:
    """Where the toolkit comes from; None where NVIDIA has nothing for the distribution `os`.

    Ubuntu's under WSL2 is one without a single driver.
    """
    if settings.cuda_repository and settings.cuda_key_fingerprint:
        return Repository(settings.cuda_repository, settings.cuda_key_fingerprint.upper())
    if os not in _REPOSITORIES:
        return None
    name, fingerprint = _REPOSITORIES[os]
    if settings.wsl2 and os.startswith("ubuntu "):
        name = "wsl-ubuntu"
    return Repository(f"{_NVIDIA}/{name}/x86_64/", fingerprint)


def usable_repository(settings: "Settings", os: str, apt_sources: str) -> Repository:
    """The same, beside the sources that apt has. ValueError when there is none, or it is in use."""
    found = repository(settings, os)
    if found is None:
        raise ValueError(
            f"NVIDIA has no repository here for {os}: set cuda_repository, or use one of "
            f"{', '.join(DISTRIBUTIONS)}"
        )
    if others := other_sources(apt_sources, found):
        raise ValueError(
            f"{', '.join(others)} names the CUDA repository, too, and apt takes no two keys for "
            f"one: {remove_sources(others)}"
        )
    return found


def version(vllm_version: str) -> str:
    """The CUDA version, "13.0", that this vLLM's torch is built with, as its lock says."""
    lock = (releases.LOCKS / f"vllm-{vllm_version}-cuda.txt").read_text(encoding="utf-8")
    for pin in locks.pins(lock):
        if pin.name == "cuda-toolkit":
            return ".".join(pin.version.split(".")[:2])
    raise ValueError(f"the lock of vLLM {vllm_version} names no cuda-toolkit")


def packages(cuda: str) -> list[str]:
    """The toolkit of one version and nothing else: `cuda` and `cuda-toolkit` move on by release."""
    return [f"cuda-toolkit-{cuda.replace('.', '-')}"]


def source(repository: Repository) -> str:
    """The repository as apt's deb822 source."""
    return (
        "Types: deb\n"
        f"URIs: {repository.url}\n"
        "Suites: /\n"
        "Architectures: amd64\n"
        f"Signed-By: {KEYRING}\n"
    )


def pins() -> str:
    """apt preferences under which no driver has a candidate."""
    return (
        "# Under WSL2 the driver is Windows': a Linux driver hides it from every program.\n"
        f"Package: {' '.join(DRIVERS)}\n"
        "Pin: release *\n"
        "Pin-Priority: -1\n"
    )


def other_sources(apt_sources: str, repository: Repository) -> list[str]:
    """The files, other than ours, that name the repository to apt: cuda-keyring writes one.

    apt refuses to do anything at all when two sources name different keys for one repository.
    """
    url = repository.url.rstrip("/")
    found: list[str] = []
    for line in apt_sources.splitlines():
        file, _, text = line.partition(":")
        named = {word.rstrip("/") for word in text.split()}
        if file not in (SOURCE_FILE, *found) and url in named:
            found.append(file)
    return found


def remove_sources(files: Iterable[str]) -> str:
    """The command that takes other sources of the repository away."""
    return f"sudo apt-get purge cuda-keyring; sudo rm -f {' '.join(files)}"


def is_driver(package: str) -> bool:
    """Is this package, with or without its architecture, a part of a driver?"""
    name = package.split(":")[0]
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in DRIVERS)


def installed_drivers(listing: Iterable[str]) -> list[str]:
    """The drivers among lines of "<status> <name> <version>" as dpkg-query gives them.

    Removed ones of which only settings are left do no harm.
    """
    found = (line.split() for line in listing)
    return [
        fields[1]
        for fields in found
        if len(fields) >= 2 and fields[0][1:2] in "iUFHWt" and is_driver(fields[1])
    ]


def planned_drivers(simulation: Iterable[str]) -> list[str]:
    """The drivers that `apt-get --simulate` would install or configure."""
    words = (line.split() for line in simulation)
    return sorted({w[1] for w in words if w[:1] in (["Inst"], ["Conf"]) and is_driver(w[1])})


def nvcc_version(output: str) -> str:
    """ "13.0" out of `nvcc --version`; empty when it does not say."""
    found = re.search(r"release (\d+\.\d+)", output)
    return found[1] if found else ""
