"""The control machine: what it must have, the cache folder, and running commands on it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .errors import RehearsalError
from .state import make_folder

# Debian package -> a file of it that says whether it is there.
_NEEDED = {
    "mmdebstrap": "/usr/bin/mmdebstrap",
    "systemd-container": "/usr/bin/systemd-nspawn",
    "openssh-client": "/usr/bin/ssh-keygen",
    "gpg": "/usr/bin/gpg",
    "iproute2": "/usr/bin/ip",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
}


def say(text: str) -> None:
    print(f"rehearsal: {text}", flush=True)


def cache() -> Path:
    """The download cache, outside of every clone."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return make_folder(Path(base) / "vllm-rehearsal")


def run(command: Sequence[str | Path], *, timeout: float | None = None) -> str:
    """Its standard output; RehearsalError with its last words when it fails.

    The command dies with this process, so a killed `up` has nothing that goes on writing.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            ["setpriv", "--pdeathsig", "KILL", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            errors="replace",
            # A user's own PATH lacks the folders of chroot and ip.
            env=os.environ | {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"},
        )
    except FileNotFoundError as error:
        raise RehearsalError("setpriv: not found on this machine (package util-linux)") from error
    except subprocess.TimeoutExpired as error:
        raise RehearsalError(f"{' '.join(words[:4])} …: no end after {timeout:.0f} s") from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-5:]
        raise RehearsalError(
            f"{' '.join(words[:4])} …: exit status {done.returncode}: " + " | ".join(last)
        )
    return done.stdout


def elevated(arguments: Sequence[str]) -> list[str]:
    """The command that runs `python -m tests.rehearsal ARGUMENTS` as root.

    sudo drops the environment, and with it where the caches are and how registries are reached.
    """
    sudo = shutil.which("sudo")
    if sudo is None:
        raise RehearsalError(
            "root is needed (mmdebstrap and systemd-nspawn), this is user "
            f"{os.getuid()} and there is no sudo: run the same command as root"
        )
    prefixes = ("PIP_", "UV_", "XDG_CACHE", "XDG_CONFIG", "SSL_CERT", "HF_")
    names = {"HOME", "PATH", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "LANG"}
    kept = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name in names or name.startswith(prefixes) or name.lower().endswith("_proxy")
    ]
    # -B: root must not leave its __pycache__ in the caller's clone.
    return [sudo, "env", *kept, sys.executable, "-B", "-m", "tests.rehearsal", *arguments]


def require_root() -> None:
    if os.geteuid() != 0:
        raise RehearsalError("root is needed (mmdebstrap and systemd-nspawn): run it through sudo")


def install_missing() -> None:
    """Install with apt what the rehearsal needs and this machine lacks, and say so first."""
    missing = [name for name, path in _NEEDED.items() if not _there(path)]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise RehearsalError(
            f"missing here: {', '.join(missing)}, and there is no apt-get: "
            "the rehearsal needs a Debian or Ubuntu machine"
        )
    say(f"installs with apt on this machine: {' '.join(missing)}")
    quiet = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y"]
    wait = ["-o", "DPkg::Lock::Timeout=120"]
    # One unreachable third-party archive fails the update, not what is to be installed.
    with contextlib.suppress(RehearsalError):
        run([*quiet, *wait, "update"], timeout=300)
    run([*quiet, *wait, "install", "--no-install-recommends", *missing], timeout=600)


def has_systemd() -> bool:
    """Whether systemd is this machine's PID 1."""
    return os.path.isdir("/run/systemd/system")


def _there(path: str) -> bool:
    # Debian before and after the merge of /bin, /sbin and /usr.
    return os.path.exists(path) or os.path.exists(path.replace("/usr/bin/", "/usr/sbin/"))
