"""What counts as a driver, where the toolkit comes from, and whose key signs it."""

import subprocess

import pytest

from hostkit.host.process import Failure
from hostkit.release import cuda as host_cuda
from hostkit.release import openpgp
from tasks.shared import cuda
from tasks.shared.engine import serving
from tests.unit.machines import PACKAGES

DRIVERS = [
    *("cuda", "cuda-13-0", "cuda-runtime-13-0", "cuda-drivers", "cuda-drivers-580"),
    *("cuda-compat-13-0", "cuda-demo-suite-12-4", "libcuda1", "libcuda1:amd64"),
    *("libnvidia-compute-580", "libnvidia-gl-580:i386", "libnvidia-ml1", "libnvidia-cfg1-580"),
    *("libnvidia-common-580", "nvidia-driver-580-open", "nvidia-open", "nvidia-dkms-580"),
    *("nvidia-kernel-open-dkms", "nvidia-utils-580", "nvidia-smi", "nvidia-modprobe"),
    *("linux-modules-nvidia-580-generic", "xserver-xorg-video-nvidia-580", "libnvcuvid1"),
    *("nvidia-headless-580-server", "nvidia-firmware-580-580.65.06", "nvidia-persistenced"),
]
OTHERS = [
    *("cuda-toolkit-13-0", "cuda-toolkit-config-common", "cuda-nvcc-13-0", "cuda-cudart-dev-13-0"),
    *("cuda-libraries-dev-13-0", "cuda-nvrtc-13-0", "cuda-driver-dev-13-0", "cuda-keyring"),
    *("libcublas-dev-13-0", "libcurand-13-0", "libnvjitlink-13-0", "libnvptxcompiler-13-0"),
    *("libnvidia-container1", "libnvidia-container-tools", "nvidia-container-toolkit"),
    *("nsight-compute-2025.3.0", "libc6", "nvidia-cuda-toolkit"),
]


@pytest.mark.parametrize("package", DRIVERS)
def test_a_part_of_a_driver_is_known(package):
    assert cuda.is_driver(package)


@pytest.mark.parametrize("package", OTHERS)
def test_what_a_toolkit_consists_of_is_no_driver(package):
    assert not cuda.is_driver(package)


def test_a_plan_with_a_driver_in_it_is_seen_through():
    plan = [
        "NOTE: This is only a simulation!",
        "The following NEW packages will be installed:",
        "  cuda-toolkit-13-0 nvidia-driver-580",
        "Inst cuda-toolkit-13-0 (13.0.3-1 NVIDIA [amd64])",
        "Inst nvidia-driver-580 [570.1] (580.95.05 NVIDIA [amd64]) []",
        "Conf nvidia-driver-580 (580.95.05 NVIDIA [amd64])",
    ]
    assert cuda.planned_drivers(plan) == ["nvidia-driver-580"]
    assert cuda.planned_drivers(plan[:4]) == []


KEYRINGS = "/etc/apt/sources.list.d/cuda-wsl-ubuntu-x86_64.list"
NVIDIAS = "https://developer.download.nvidia.com/compute/cuda/repos/wsl-ubuntu/x86_64"


@pytest.mark.parametrize(
    ("os", "apt_sources", "reason"),
    [
        (
            "ubuntu 20.04",
            "",
            "no repository here for ubuntu 20.04: set cuda_repository, or use one",
        ),
        (
            "ubuntu 24.04",
            f"{KEYRINGS}:deb [signed-by=/x] {NVIDIAS}/ /\n{KEYRINGS}:deb {NVIDIAS} /\n",
            f"^{KEYRINGS} names the CUDA repository, .*sudo rm -f {KEYRINGS}$",
        ),
    ],
)
def test_a_repository_that_is_not_there_or_that_apt_has_already_is_refused(
    make, os, apt_sources, reason
):
    with pytest.raises(ValueError, match=reason):
        cuda.usable_repository(make(), os, apt_sources)


def test_a_repository_beside_others_and_our_own_source_of_it_is_usable(make):
    others = (
        "/etc/apt/sources.list:deb https://example.com/ubuntu noble main\n"
        f"/etc/apt/sources.list.d/x.list:deb {NVIDIAS}-other /\n"
        f"{cuda.SOURCE_FILE}:URIs: {NVIDIAS}/\n"
    )
    found = cuda.usable_repository(make(), "ubuntu 24.04", others)
    assert found.url == f"{NVIDIAS}/"


def test_an_installed_driver_is_seen_in_every_state_that_has_its_files():
    listing = ["ii  libcuda1 580", "iU  nvidia-driver-580 580", "iF  libnvidia-ml1 5"]
    assert cuda.installed_drivers(listing) == ["libcuda1", "nvidia-driver-580", "libnvidia-ml1"]
    assert cuda.installed_drivers(["rc  libcuda1 580", "un  nvidia-smi "]) == []
    assert cuda.installed_drivers(PACKAGES.splitlines()) == []


def test_the_toolkits_version_is_that_of_torch_and_of_the_servers_cuda_home(make):
    assert cuda.version("0.31.0") == "13.0"
    assert f"/usr/local/cuda-{cuda.version(make().vllm_version)}" == serving.CUDA_HOME
    assert cuda.packages("13.0") == ["cuda-toolkit-13-0"]


@pytest.mark.parametrize(
    ("wsl2", "os", "folder", "key"),
    [
        (True, "ubuntu 24.04", "wsl-ubuntu", "3BF863CC"),
        (False, "ubuntu 24.04", "ubuntu2404", "3BF863CC"),
        (True, "debian 12", "debian12", "3BF863CC"),
        (True, "debian 13", "debian13", "8793F200"),
    ],
)
def test_each_distribution_has_its_repository_and_key(make, wsl2, os, folder, key):
    found = cuda.repository(make(wsl2=wsl2), os)
    assert found is not None
    assert found.url.endswith(f"/{folder}/x86_64/")
    assert found.fingerprint.endswith(key)


def test_a_distribution_without_a_repository_has_none_unless_a_mirror_is_set(make):
    assert cuda.repository(make(), "ubuntu 26.04") is None
    own = make(cuda_repository="https://mirror/x86_64/", cuda_key_fingerprint="ab" * 20)
    assert cuda.repository(own, "ubuntu 26.04") == cuda.Repository(
        "https://mirror/x86_64/", "AB" * 20
    )


def test_a_mirror_needs_the_fingerprint_of_its_key(make):
    with pytest.raises(ValueError, match="go together"):
        make(cuda_repository="https://mirror/x86_64/")
    with pytest.raises(ValueError, match="go together"):
        make(cuda_key_fingerprint="ab" * 20)


def test_nvccs_version_is_read():
    assert cuda.nvcc_version("Cuda compilation tools, release 13.0, V13.0.88\n") == "13.0"
    assert cuda.nvcc_version("") == ""


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Two throwaway keys: name to (armored, binary, fingerprint as gpg tells it)."""
    home = tmp_path_factory.mktemp("gnupg")
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
    made = {}
    for name in ("one", "two"):
        subprocess.run([*gpg, "--quick-generate-key", name, "rsa2048"], check=True)
        listed = subprocess.run(
            [*gpg, "--with-colons", "--list-keys", name], check=True, capture_output=True, text=True
        ).stdout
        fingerprint = next(x for x in listed.splitlines() if x.startswith("fpr:")).split(":")[9]
        armored, binary = (
            subprocess.run(
                [*gpg, *option, "--export", name], check=True, capture_output=True
            ).stdout
            for option in (["--armor"], [])
        )
        made[name] = (armored, binary, fingerprint)
    yield made
    # The agent that gpg has started would stay.
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=True)


def test_a_key_has_the_fingerprint_that_gpg_tells(keys):
    armored, binary, fingerprint = keys["one"]
    assert openpgp.fingerprints(binary) == [fingerprint]
    assert openpgp.fingerprints(armored) == [fingerprint]
    assert openpgp.fingerprints(armored.replace(b"\n", b"\r\n")) == [fingerprint]
    assert openpgp.dearmored(armored) == binary


def test_a_second_key_in_a_file_is_seen(keys):
    both = keys["one"][1] + keys["two"][1]
    assert openpgp.fingerprints(both) == [keys["one"][2], keys["two"][2]]


@pytest.mark.parametrize(
    "damage", [lambda key: key[:-9], lambda key: b"<html>", lambda key: b"\x99" + key]
)
def test_what_is_no_whole_key_is_refused(keys, damage):
    with pytest.raises(ValueError, match="not"):
        openpgp.fingerprints(damage(keys["one"][1]))


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """A repository's folder, read through the same function as a URL."""
    return lambda name, content: (tmp_path / name).write_bytes(content), f"file://{tmp_path}/"


@pytest.mark.parametrize("spelled", [str.lower, str.upper])
def test_the_repositorys_key_is_trusted_when_the_fingerprint_is_the_pinned_one(
    keys, serve, tmp_path, spelled
):
    armored, binary, fingerprint = keys["one"]
    put, url = serve
    put(f"{spelled(fingerprint[-8:])}.pub", armored)
    keyring = tmp_path / "keyring.gpg"
    host_cuda.trust_key(url, fingerprint, keyring)
    assert keyring.read_bytes() == binary


def test_another_key_or_one_more_is_refused_and_nothing_is_written(keys, serve, tmp_path):
    put, url = serve
    fingerprint = keys["one"][2]
    keyring = tmp_path / "keyring.gpg"
    for content in (keys["two"][1], keys["one"][1] + keys["two"][1], b"<html>not found</html>"):
        put(f"{fingerprint[-8:].lower()}.pub", content)
        with pytest.raises(Failure):
            host_cuda.trust_key(url, fingerprint, keyring)
    with pytest.raises(Failure, match="cannot fetch"):
        host_cuda.trust_key("file:///no/such/", fingerprint, keyring)
    assert not keyring.exists()
