"""A WSL2 machine before its first `wsl --shutdown`: systemd is there, but does not run it.

An imitation: a plain folder that is changed root into, with a file for each mark of a WSL2 machine.
What Windows and WSL would do with the files that are written is not tried.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tasks.shared.wsl import windows
from tests.unit import machines

from . import deploys
from .host import rootfs, state

USER = "Jürgen"
SIMULATED = {
    "proc/1/comm": "init\n",
    "proc/mounts": machines.MOUNTS,
    "proc/meminfo": "MemTotal:       24660248 kB\n",
    "proc/net/tcp": "",
    "usr/local/bin/uname": "#!/bin/sh\n"
    'if [ "$1" = -r ]; then echo 6.6.114.1-microsoft-standard-WSL2; else /usr/bin/uname "$@"; fi\n',
    "usr/lib/wsl/lib/nvidia-smi": f"#!/bin/sh\ncat <<'E'\n{machines.GPUS}E\n",
    "usr/local/cuda-13.0/bin/nvcc": f"#!/bin/sh\necho '{machines.NVCC}'\n",
    "etc/wsl.conf": "# mine\n[user]\ndefault=me\n\n[ boot ]\nsystemd=true\n",
}
WSLCONFIG = "\ufeff# größer\r\n[wsl2]\r\nmemory=24GB\r\nswapFile=D:\\\\swap.vhdx\r\n"
WSL_VERSION = "WSL version: 2.7.0.0\r\n"
WINDOWS_USERS = (USER, "Public", "Default", "All Users", "Default User")


def as_root(*command: str | Path, stdin: bytes | None = None) -> None:
    prefix = [] if os.geteuid() == 0 else ["sudo"]
    subprocess.run([*prefix, *command], check=True, input=stdin, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The machine's root folder."""
    folder = tmp_path_factory.mktemp("wsl") / "root"
    folder.mkdir()
    as_root("tar", "--extract", f"--file={rootfs.root_tar()}", f"--directory={folder}")

    def put(path, content, mode="644"):
        as_root("mkdir", "-p", (folder / path).parent)
        as_root("tee", folder / path, stdin=content)
        as_root("chmod", mode, folder / path)

    for path, text in SIMULATED.items():
        put(path, text.encode(), "755" if text.startswith("#!") else "644")
    for user in WINDOWS_USERS:
        put(f"mnt/c/Users/{user}/here", b"")
    put(f"mnt/c/Users/{USER}/.wslconfig", WSLCONFIG.encode("utf-16-le"))
    put("version", WSL_VERSION.encode("utf-16-le"))
    put("mnt/c/Windows/System32/wsl.exe", b"#!/bin/sh\ncat /version\n", "755")
    yield folder
    as_root("rm", "-rf", "--one-file-system", folder)


def pyinfra(root, *arguments):
    prefix = [] if os.geteuid() == 0 else ["sudo", "-E"]
    return subprocess.run(
        [*prefix, deploys.PYINFRA[0], f"@chroot/{root}", *arguments],
        cwd=state.REPOSITORY,
        env=deploys.environment("none"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def contents(root):
    """Everything that could be written by mistake."""
    return {
        path: path.read_bytes()
        for top in ("etc", "opt", "var/lib", "mnt", "usr/local", "usr/lib/wsl")
        for path in (root / top).rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def test_the_plan_shows_what_is_written_and_writes_nothing(root):
    before = contents(root)
    done = pyinfra(root, "deploy.py", "--dry", "--diff")
    assert done.returncode == 0, done.stderr
    for words in (
        "Ask for systemd in /etc/wsl.conf",
        "+ systemd=true",
        "+ instanceIdleTimeout=-1",
        f"Write {windows.SCRIPT}",
        "Stop here until WSL has been restarted",
        "process 1 is init; /etc/wsl.conf has systemd= in section [user]",
        windows.NEXT_STEP,
    ):
        assert words in done.stderr
    assert contents(root) == before


def test_the_deploy_writes_it_ends_with_1_and_names_the_next_step(root):
    before = contents(root)
    done = pyinfra(root, "deploy.py", "-y")
    assert done.returncode == 1
    assert windows.NEXT_STEP in done.stderr
    assert "Traceback" not in done.stderr
    after = contents(root)
    changed = {str(p.relative_to(root)) for p in after if after[p] != before.get(p)}
    assert changed == {
        "etc/wsl.conf",
        windows.SCRIPT[1:],
        f"mnt/c/Users/{USER}/.wslconfig",
    }
    assert (root / "etc/wsl.conf").read_text() == (
        SIMULATED["etc/wsl.conf"] + "\n[boot]\nsystemd=true\n"
    )


def test_windows_own_file_keeps_its_encoding_and_everything_in_it(root):
    text = (root / f"mnt/c/Users/{USER}/.wslconfig").read_bytes().decode("utf-16-le")
    assert text == (f"{WSLCONFIG}vmIdleTimeout=-1\r\n\r\n[general]\r\ninstanceIdleTimeout=-1\r\n")


def test_as_long_as_wsl_is_not_restarted_nothing_more_is_done(root):
    before = contents(root)
    done = pyinfra(root, "deploy.py", "-y")
    assert done.returncode == 1
    assert "has not been restarted" in done.stderr
    assert contents(root) == before


def test_check_host_alone_refuses_it_but_its_plan_does_not(root):
    assert pyinfra(root, "tasks/check_host.py", "-y").returncode == 1
    assert pyinfra(root, "tasks/check_host.py", "--dry").returncode == 0


def test_after_the_restart_the_machine_is_in_order(root):
    as_root("tee", root / "proc/1/comm", stdin=b"systemd\n")
    before = contents(root)
    done = pyinfra(root, "tasks/check_host.py", "--dry")
    assert done.returncode == 0, done.stderr
    assert ", 0 refusals" in done.stderr
    for words in (
        "2.7.0.0, kernel 6.6.114.1-microsoft-standard-WSL2",
        "memory=24GB, the VM has 23.5 GiB",
        "NVIDIA GeForce RTX 5070, compute capability 12.0",
        "11800 of 12227 MiB are free",
        "nvcc 13.0",
        "WSL does not stop when it is idle",
        "/var/lib/vllm/kv on ext4",
    ):
        assert words in done.stderr
    done = pyinfra(root, "tasks/wsl.py", "-y")
    assert done.returncode == 0, done.stderr
    assert "] Success" not in done.stderr
    assert contents(root) == before


def test_a_file_that_cannot_be_edited_safely_is_left_as_it_is(root):
    twice = "[wsl2]\nvmIdleTimeout=1\nvmIdleTimeout=2\n"
    as_root("tee", root / f"mnt/c/Users/{USER}/.wslconfig", stdin=twice.encode())
    done = pyinfra(root, "tasks/wsl.py", "-y")
    assert done.returncode == 1
    assert "already exists: correct it by hand" in done.stderr
    assert (root / f"mnt/c/Users/{USER}/.wslconfig").read_text() == twice


def test_a_plain_machine_without_a_gpu_is_told_what_is_missing_in_one_screen(fresh_host):
    production = ("--data", 'accelerator="cuda"', "--data", "gpus=2", "--data", "kv_ram_gib=2.0")
    done = deploys.pyinfra("tasks/check_host.py", "--dry", *production, host=fresh_host)
    assert done.returncode == 1
    rows = [line for line in done.stderr.splitlines() if f"[{fresh_host}]   " in line]
    assert len(rows) < 40
    for words in (
        "there is no /usr/bin/nvidia-smi",
        "there is no /usr/local/cuda-13.0/bin/nvcc",
        "2 refusals",
    ):
        assert words in done.stderr
    assert "Traceback" not in done.stderr
