"""The host's root tree: a Debian made once per recipe, unpacked per host, then furnished."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from . import borrowed
from .control import cache, run, say
from .errors import RehearsalError
from .state import Host, give_to_caller, locked, make_folder

SUITE = "bookworm"
# A bare machine: what the toolkit needs beyond this, it installs itself.
PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "openssh-server",
    "python3",
    "gpgv",
    "ca-certificates",
)
# Left alone, these would change files between two looks at an idle host.
MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "systemd-tmpfiles-clean.timer",
)
DOWNLOADS = "/opt/vllm/cache/downloads"


def recipe_command(mirrors: list[str], options: list[str]) -> list[str]:
    """mmdebstrap's arguments, without the output file; they are what the cached tar is keyed by."""
    return [
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        *(f"--aptopt={option}" for option in options),
        SUITE,
        "{tar}",
        *mirrors,
    ]


def recipe_key(command: list[str]) -> str:
    return hashlib.sha256(json.dumps(command).encode()).hexdigest()[:12]


def root_tar() -> Path:
    """The tar of the unfurnished root: out of the cache, or made now."""
    command = recipe_command(borrowed.debian_mirrors(SUITE), borrowed.apt_settings())
    folder = cache() / "roots"
    tar = folder / f"{SUITE}-{recipe_key(command)}.tar"
    with locked(folder):
        if tar.exists():
            return tar
        for leftover in folder.iterdir():
            if leftover.name.startswith("building"):
                remove(leftover)
        say(f"makes a Debian {SUITE} root with mmdebstrap, kept as {tar}")
        work = folder / "building"
        # mmdebstrap reads packages as the user _apt.
        work.mkdir(mode=0o755)
        command[command.index("{tar}")] = str(work / "root.tar")
        # Namespaces of its own: when it is killed, none of its children and mounts is left.
        alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        try:
            run([*alone, "env", f"TMPDIR={work}", *command], timeout=900)
            (work / "root.tar").rename(tar)
        finally:
            remove(work)
        give_to_caller(tar)
    return tar


def unpack(host: Host) -> None:
    """Make `host.root`; it appears only when it is complete."""
    tar = root_tar()
    partial = host.folder / "root.partial"
    partial.mkdir(mode=0o755)
    run(["tar", "--extract", f"--file={tar}", f"--directory={partial}", "--numeric-owner"])
    furnish(partial, host)
    partial.rename(host.root)


def furnish(root: Path, host: Host) -> None:
    """Name, keys, certificates and registries: all that makes the tree this host's own."""
    _put(root, "etc/hostname", f"{host.name}\n")
    _put(root, "etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {host.name}\n::1 localhost\n")
    for unit in MASKED:
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    _furnish_ssh(root, host)
    _furnish_registries(root)
    reuse_packages(root)


def refresh(host: Host) -> None:
    """What may have changed on this machine since the host was made, written before each boot."""
    _put(host.root, "etc/resolv.conf", Path("/etc/resolv.conf").read_text())
    _put(
        host.root,
        "etc/ssh/sshd_config.d/rehearsal.conf",
        f"ListenAddress {host.ssh_hostname}\n"
        f"Port {host.ssh_port}\n"
        "HostKey /etc/ssh/ssh_host_ed25519_key\n"
        "AllowUsers root\n"
        "PermitRootLogin prohibit-password\n"
        "AuthenticationMethods publickey\n"
        "PasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\n",
    )
    public = (host.root / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2]
    host.known_hosts.write_text(f"[{host.ssh_hostname}]:{host.ssh_port} {' '.join(public)}\n")
    give_to_caller(host.known_hosts)


def binds() -> list[str]:
    """systemd-nspawn's --bind arguments: local package folders, and a cache for downloads."""
    downloads = make_folder(cache() / "host-cache")
    found = [f"--bind={_escaped(str(downloads))}:{DOWNLOADS}"]
    for folder in borrowed.local_folders(borrowed.pip_settings()):
        if os.path.isdir(folder):
            found.append(f"--bind-ro={_escaped(folder)}")
    return found


def reuse_packages(root: Path) -> None:
    """Give the host the Debian packages that an earlier one has downloaded; apt checks them."""
    archives = root / "var/cache/apt/archives"
    archives.mkdir(parents=True, exist_ok=True)
    for package in _package_cache().glob("*.deb"):
        shutil.copy2(package, archives)


def keep_packages(root: Path) -> None:
    """Keep the Debian packages that this host has downloaded for the next one."""
    kept = _package_cache()
    for package in (root / "var/cache/apt/archives").glob("*.deb"):
        if package.is_file() and not package.is_symlink() and not (kept / package.name).exists():
            partial = kept / f"{package.name}.new"
            shutil.copy2(package, partial)
            partial.rename(kept / package.name)


def _package_cache() -> Path:
    return make_folder(cache() / "debs")


def _furnish_ssh(root: Path, host: Host) -> None:
    for shared in (root / "etc/ssh").glob("ssh_host_*"):
        shared.unlink()
    keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"rehearsal-{host.name}", "-f"]
    run([*keygen, root / "etc/ssh/ssh_host_ed25519_key"])
    for stale in (host.key, host.folder / "key.pub"):
        stale.unlink(missing_ok=True)
    run([*keygen, host.key])
    give_to_caller(host.key, host.folder / "key.pub")
    _put(root, "root/.ssh/authorized_keys", (host.folder / "key.pub").read_text(), 0o600)
    (root / "root/.ssh").chmod(0o700)


def _furnish_registries(root: Path) -> None:
    own = set(borrowed.certificates((root / borrowed.CA_BUNDLE[1:]).read_text()))
    # One file each, in the place that update-ca-certificates adds to the bundle every time.
    for certificate in borrowed.control_certificates():
        if certificate not in own:
            name = hashlib.sha256(certificate.encode()).hexdigest()[:16]
            _put(root, f"usr/local/share/ca-certificates/control-{name}.crt", certificate + "\n")
    run(["chroot", root, "update-ca-certificates"], timeout=120)
    settings = borrowed.pip_settings()
    _put(root, "etc/pip.conf", borrowed.pip_conf(settings))
    _put(root, "etc/uv/uv.toml", borrowed.uv_toml(settings))
    variables = borrowed.host_environment(os.environ)
    _put(root, "etc/environment", borrowed.environment_file(variables))
    _put(root, "etc/systemd/system.conf.d/rehearsal.conf", borrowed.manager_conf(variables))


def _put(root: Path, name: str, text: str, mode: int = 0o644) -> None:
    # A link in the tree may point to an absolute path, which here is the control machine's.
    path = root / name
    if not path.parent.resolve().is_relative_to(root.resolve()):
        raise RehearsalError(f"{path}: leads out of the host's root; make the host again")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace(":", "\\:")


def remove(tree: Path) -> None:
    """Remove a tree without crossing into another file system."""
    if not tree.exists():
        return
    done = subprocess.run(
        ["rm", "-rf", "--one-file-system", str(tree)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RehearsalError(f"{tree}: not removed: {done.stderr.strip().splitlines()[-1]}")
