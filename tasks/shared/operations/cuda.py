"""NVIDIA's CUDA toolkit out of its apt repository."""

import posixpath
import re

from pyinfra import host
from pyinfra.api import operation

from hostkit.release import openpgp
from tasks.shared import cuda
from tasks.shared.cuda import Repository
from tasks.shared.facts.cuda import (
    CompiledBefore,
    InstallSimulation,
    PackageListing,
    note_compiled,
)
from tasks.shared.facts.files import FileBytes
from tasks.shared.operations.apt import waiting
from tasks.shared.operations.common import Commands, refuse
from tasks.shared.operations.hostkit import Hostkit

# Nothing is removed for the toolkit, and whatever a package holds, Windows' driver stays.
_OPTIONS = ("--yes", "--no-install-recommends", "--no-remove")
_NEVER_WRITTEN = ("-o", "Dpkg::Options::=--path-exclude=/usr/lib/wsl/*")
_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9.+-]*")


@operation()
def key_trusted(repository: Repository, path: str) -> Commands:
    """Ensure a keyring that holds the repository's key and no other.

    The key is fetched from the repository itself; its fingerprint decides.

    + repository: URL and fingerprint
    + path: the keyring
    """
    try:
        found = openpgp.fingerprints(host.get_fact(FileBytes, path=path) or b"")
    except ValueError:
        found = []
    if found == [repository.fingerprint]:
        host.noop(f"{path} holds {repository.fingerprint}")
        return
    yield Hostkit("trust-key", repository.url, repository.fingerprint, path)


@operation()
def toolkit_installed(packages: list[str], driver_is_elsewhere: bool) -> Commands:
    """Ensure that packages are installed without any part of a driver, whichever way it comes.

    apt is asked what it would do before it does anything: a plan with a driver in it is refused,
    be it a dependency, a version that overrides the pin, or a local file.

    + packages: whatever `apt-get install` takes; "name=version" or a file is installed again
    + driver_is_elsewhere: True refuses a driver that is installed already, too
    """
    listing = host.get_fact(PackageListing)
    there = cuda.installed_drivers(listing)
    if driver_is_elsewhere and there:
        yield from refuse(
            f"{', '.join(there)}: a Linux driver hides the one of Windows: "
            f"sudo apt-get purge {' '.join(there)}"
        )
        return
    installed = {line.split()[1] for line in listing if line.startswith("ii ")}
    missing = [
        package
        for package in packages
        if not (_PLAIN_NAME.fullmatch(package) and package in installed)
    ]
    if not missing:
        host.noop(f"{', '.join(packages)} are installed")
        return
    yield waiting("dpkg", "--configure", "-a")
    yield waiting("apt-get", "update")
    plan = host.get_fact(InstallSimulation, arguments=missing)
    drivers = cuda.planned_drivers(plan)
    errors = [line for line in plan if line.startswith("E: ")]
    if drivers:
        yield from refuse(
            f"installing {', '.join(missing)} would install a driver, {', '.join(drivers)}: "
            "nothing is installed"
        )
    elif errors:
        reasons = [line.strip() for line in plan if re.match(r" +\S+ : ", line)]
        yield from refuse(
            f"apt cannot install {', '.join(missing)}: {' '.join([*errors, *reasons])[:400]}: "
            "`apt-get update` on the host says what is wrong with its sources"
        )
    else:
        yield waiting("apt-get", "install", *_OPTIONS, *_NEVER_WRITTEN, "--", *missing)


@operation()
def toolkit_compiles(home: str, version: str, architecture: str) -> Commands:
    """Ensure that the toolkit compiles, and is what torch is built with; nvcc needs no GPU for it.

    + home: the toolkit's folder
    + version: of nvcc, "13.0"
    + architecture: "sm_120"
    """
    if host.get_fact(CompiledBefore, home=home, architecture=architecture):
        host.noop(f"{posixpath.join(home, 'bin/nvcc')} has compiled for {architecture}")
        return
    yield Hostkit("check-cuda", home, version, architecture)
    yield note_compiled(home, architecture)
