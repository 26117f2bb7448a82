"""The CUDA toolkit out of an apt repository: an imitation of NVIDIA's, signed by the test itself.

The compiler in it is real, and so is the compile for sm_120, which needs no GPU.
"""

import base64
import functools
import json
import os

import pytest
from pyinfra.api.exceptions import PyinfraError

from hostkit.host.process import Failure
from hostkit.release import cuda as host_cuda
from tasks.shared import cuda
from tasks.shared.facts.cuda import CHECKED
from tasks.shared.operations import cuda as operations

from . import deploys
from .conftest import rehearsal
from .imitations import nvidia
from .operations import CHANGES, NOTHING, run_operation

HOST = "cuda"
DRIVER = "580.95.05-1"
SHADOW = "/usr/lib/wsl/lib/libcuda.so.1"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Packages of NVIDIA's names, with what pulls in a driver among them."""
    made = nvidia.Repository.make(tmp_path_factory.mktemp("apt") / "x86_64")
    real = nvidia.toolkit()
    trees = {f"{nvidia.HOME}/{part}": real / part for part in ("bin", "include", "nvvm")}
    made.add("cuda-nvcc-13-0", "13.0.88-1", trees=trees)
    made.add("cuda-toolkit-13-0", "13.0.3-1", depends="cuda-nvcc-13-0")
    made.add("cuda-drivers", DRIVER, depends="libnvidia-compute-580")
    made.add("libnvidia-compute-580", DRIVER)
    made.add("libnvidia-container1", "1.18.0-1")
    made.add("cuda-samples-13-0", "13.0-1", depends=f"cuda-drivers (= {DRIVER})")
    made.add("cuda-stub-13-0", "13.0-1", files={SHADOW[1:]: "shadow", "usr/share/stub": "x"})
    made.add("cuda-damaged-13-0", "13.0-1")
    made.publish()
    yield made
    made.close()


@pytest.fixture(scope="module")
def url(repository):
    with nvidia.served(repository.folder) as address:
        yield address


@pytest.fixture(scope="module")
def cuda_host():
    """A host of its own, on which nothing but hostkit's task has run."""
    keep = bool(os.environ.get("REHEARSAL_KEEP"))
    rehearsal("up", "--name", HOST, *([] if keep else ["--fresh"]))
    rehearsal("model")
    deploys.deploy_json(host=HOST, file="tasks/hostkit.py")
    # What an earlier run of these tests has left on a host that is kept.
    deploys.on_host(
        "dpkg --purge $(dpkg-query -W -f '${Package}\\n' 'cuda-*' 2>/dev/null) 2>/dev/null; "
        f"rm -f {cuda.KEYRING} {cuda.SOURCE_FILE} {cuda.PIN_FILE} {CHECKED}",
        host=HOST,
    )
    deploys.on_host(f"mkdir -p /usr/lib/wsl/lib; echo windows >{SHADOW}", host=HOST)
    yield HOST
    if not keep:
        rehearsal("down", "--name", HOST)


@pytest.fixture(scope="module")
def wanted(repository, url):
    """The settings of a WSL2 machine that uses the imitation."""
    values = {
        "accelerator": '"cuda"',
        "wsl2": "True",
        "gpu_memory_mib": "12227",
        "cuda_repository": json.dumps(url),
        "cuda_key_fingerprint": json.dumps(repository.fingerprint),
    }
    return [word for key, value in values.items() for word in ("--data", f"{key}={value}")]


def on_host(*words, **options):
    return deploys.on_host(*words, host=HOST, **options)


def is_installed(package):
    return on_host(f"dpkg-query -W -f '${{Status}}' {package} 2>/dev/null; true").endswith(
        " installed"
    )


@pytest.fixture(scope="module")
def installed(cuda_host, wanted):
    done = deploys.pyinfra("tasks/cuda.py", "-y", *wanted, host=cuda_host)
    assert done.returncode == 0, done.stderr[-4000:]
    return cuda_host


@pytest.fixture
def install(installed):
    return functools.partial(
        run_operation, installed, operations.toolkit_installed, driver_is_elsewhere=True
    )


def test_a_plan_on_a_machine_without_the_repository_changes_nothing(cuda_host, wanted):
    on_host("touch /root/before")
    done = deploys.pyinfra("tasks/cuda.py", "--dry", "--diff", *wanted, host=cuda_host)
    assert done.returncode == 0, done.stderr
    assert cuda.SOURCE_FILE in done.stderr
    assert "Pin-Priority: -1" in done.stderr
    assert on_host("find /etc /opt /usr /var/lib/apt /var/lib/dpkg -newer /root/before") == ""


def test_the_wrong_key_is_refused_before_anything_comes_from_the_repository(cuda_host, wanted):
    stranger = [*wanted[:-1], f'cuda_key_fingerprint="{"AB" * 20}"']
    done = deploys.pyinfra("tasks/cuda.py", "-y", *stranger, host=cuda_host)
    assert done.returncode == 1
    assert "cannot fetch the key" in done.stderr
    assert on_host(f"ls {cuda.KEYRING} {cuda.SOURCE_FILE} 2>/dev/null; true") == ""


def test_the_toolkit_is_installed_and_compiles_for_sm_120(installed):
    assert is_installed("cuda-toolkit-13-0")
    assert "release 13.0" in on_host("/usr/local/cuda-13.0/bin/nvcc --version")
    assert "sm_120" in on_host(f"cat {CHECKED}")
    assert not is_installed("cuda-drivers")


def test_the_second_run_changes_nothing(installed, wanted):
    totals = deploys.deploy_json(*wanted, host=installed, file="tasks/cuda.py")
    assert (totals.changed, totals.error) == ((), 0)
    assert totals.no_change == 5


def test_no_driver_has_a_candidate_any_more_but_the_container_tools_have(installed):
    def candidate(package):
        policy = on_host(f"apt-cache policy {package}")
        return next(line.split()[1] for line in policy.splitlines() if "Candidate:" in line)

    assert candidate("cuda-drivers") == "(none)"
    assert candidate("libnvidia-compute-580") == "(none)"
    assert candidate("libnvidia-container1") == "1.18.0-1"
    assert candidate("cuda-toolkit-13-0") == "13.0.3-1"


def test_a_second_source_of_the_repository_is_refused_before_apt_stops_over_it(
    installed, wanted, url
):
    other = "/etc/apt/sources.list.d/cuda-debian12-x86_64.list"
    on_host(f"echo 'deb [signed-by=/usr/share/keyrings/cuda.gpg] {url} /' >{other}")
    try:
        done = deploys.pyinfra("tasks/cuda.py", "--dry", *wanted, host=installed)
    finally:
        on_host(f"rm {other}")
    assert done.returncode == 1
    assert f"sudo apt-get purge cuda-keyring; sudo rm -f {other}" in done.stderr


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        # A version, or a file, is installed whatever the pin says.
        (f"libnvidia-compute-580={DRIVER}", "would install a driver, libnvidia-compute-580"),
        ("/root/driver.deb", "would install a driver, libnvidia-compute-580"),
        ("cuda-samples-13-0", "cuda-samples-13-0 : Depends: cuda-drivers"),
        ("cuda-toolkit-99-0", "Unable to locate package"),
    ],
)
def test_a_plan_with_a_driver_is_refused_whichever_way_it_comes(
    install, repository, argument, said, caplog
):
    driver = repository.folder / f"libnvidia-compute-580_{DRIVER}_amd64.deb"
    on_host("base64 -d >/root/driver.deb", stdin=base64.encodebytes(driver.read_bytes()).decode())
    with pytest.raises(PyinfraError):
        install(packages=["cuda-toolkit-13-0", argument])
    assert said in caplog.text
    for package in ("cuda-drivers", "libnvidia-compute-580", "cuda-samples-13-0"):
        assert not is_installed(package)


def test_without_the_pin_the_plan_is_still_refused(install, caplog):
    on_host(f"mv {cuda.PIN_FILE} /root/pin")
    try:
        with pytest.raises(PyinfraError):
            install(packages=["cuda-samples-13-0"])
    finally:
        on_host(f"mv /root/pin {cuda.PIN_FILE}")
    assert "would install a driver, cuda-drivers, libnvidia-compute-580" in caplog.text
    assert not is_installed("cuda-drivers")


def test_a_driver_that_is_there_already_is_refused_with_the_command_that_removes_it(
    install, caplog
):
    on_host(f"apt-get -qq -y install libnvidia-compute-580={DRIVER}")
    try:
        with pytest.raises(PyinfraError):
            install(packages=["cuda-toolkit-13-0"])
        assert "apt-get purge libnvidia-compute-580" in caplog.text
        # On a machine whose driver is Linux' own this is as it should be.
        assert install(packages=["cuda-toolkit-13-0"], driver_is_elsewhere=False) == NOTHING
    finally:
        on_host("dpkg --purge libnvidia-compute-580")


def test_a_changed_package_is_refused(install, repository):
    package = repository.folder / "cuda-damaged-13-0_13.0-1_amd64.deb"
    content = package.read_bytes()
    package.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    # An earlier rehearsal may have left the right one in apt's cache.
    on_host("apt-get clean")
    try:
        with pytest.raises(PyinfraError):
            install(packages=["cuda-damaged-13-0"])
        assert not is_installed("cuda-damaged-13-0")
    finally:
        package.write_bytes(content)
    assert install(packages=["cuda-damaged-13-0"]) == CHANGES


def test_nothing_is_ever_written_where_windows_driver_is_mounted(install):
    assert install(packages=["cuda-stub-13-0"]) == CHANGES
    assert on_host("cat /usr/share/stub") == "x"
    assert on_host(f"cat {SHADOW}") == "windows"


def test_a_toolkit_that_no_longer_compiles_is_said_in_one_line(installed):
    """The check runs again because the compiler is another one than before."""
    arguments = {"home": "/usr/local/cuda-13.0", "version": "13.0", "architecture": "sm_120"}
    check = functools.partial(run_operation, installed, operations.toolkit_compiles, **arguments)
    assert check() == NOTHING
    on_host("cd /usr/local/cuda-13.0 && mv nvvm away && touch bin/nvcc")
    try:
        with pytest.raises(PyinfraError):
            check()
    finally:
        on_host("cd /usr/local/cuda-13.0 && mv away nvvm")
    assert check() == CHANGES
    assert check() == NOTHING


def test_the_compile_is_a_real_one():
    """On this machine, with the same compiler; a failure to get it fails the test."""
    home = nvidia.toolkit()
    assert host_cuda.compiles(home, "13.0", "sm_120") == 0
    with pytest.raises(Failure, match=r"expected 12\.8"):
        host_cuda.compiles(home, "12.8", "sm_120")
    with pytest.raises(Failure, match="sm_999"):
        host_cuda.compiles(home, "13.0", "sm_999")
    with pytest.raises(Failure, match="there is no"):
        host_cuda.compiles(home / "nothing", "13.0", "sm_120")


def test_a_cpu_host_is_left_alone_and_told_so(cuda_host):
    done = deploys.pyinfra("tasks/cuda.py", "--dry", host=cuda_host)
    assert done.returncode == 0
    assert "accelerator = cpu: no CUDA toolkit is needed" in done.stderr
