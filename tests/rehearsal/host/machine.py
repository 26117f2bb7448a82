"""Make, boot, stop and remove a rehearsal host: Debian with systemd as PID 1 in systemd-nspawn.

Everything here needs root. Every step can be killed: `up` and `down` start from what is there.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from . import borrowed, network, processes, rootfs, state
from .control import has_systemd, install_missing, require_root, run, say
from .errors import RehearsalError
from .state import Host

BOOT_SECONDS = 60
POWER_OFF_SECONDS = 30
# No lock file beside the root: the lock on the host's folder is enough.
_NSPAWN_ENVIRONMENT = {"SYSTEMD_NSPAWN_LOCK": "0"}
_REBOOT = 133  # systemd-nspawn --keep-unit ends with it when the host asks for a reboot


def up(name: str, *, fresh: bool = False, private_network: bool | None = None) -> Host:
    """Make the host, or boot the one that is there, and wait until it is ready.

    `private_network` None keeps what the host has; True or False boots it again where it differs.
    """
    require_root()
    if fresh:
        down(name)
    install_missing()
    with state.locked(state.folder_of(name)):
        host = _known(name)
        if host is None:
            _clear(name)
            host = _make(name)
        wanted = host.private_network if private_network is None else private_network
        if wanted == host.private_network and _answers(host):
            return host
        return _boot(host, wanted)


def down(name: str) -> bool:
    """Stop and remove the host, half-made or crashed as well; False when there was none."""
    require_root()
    folder = state.folder_of(name)
    if not folder.is_dir():
        _clear_outside(name)
        return False
    with state.locked(folder):
        _clear(name)
        folder.rmdir()
    # Not empty while this clone has another host.
    with contextlib.suppress(OSError):
        state.HOSTS.rmdir()
    return True


def reboot(name: str) -> Host:
    """Restart the host's systemd in the orderly way."""
    require_root()
    state.load(name)  # before the lock, which makes the folder
    with state.locked(state.folder_of(name)):
        host = state.load(name)
        _stop(host)
        return _boot(host, host.private_network)


def power_cut(name: str, *, boot: bool = True) -> Host:
    """Kill everything of the host at once, nothing asked; then boot it again unless told not to.

    What the host wrote without fsync is still there: this machine's own page cache outlives it.
    """
    require_root()
    state.load(name)  # before the lock, which makes the folder
    with state.locked(state.folder_of(name)):
        host = state.load(name)
        _kill(host.name)
        return _boot(host, host.private_network) if boot else host


def is_running(name: str) -> bool:
    return bool(processes.supervisors(state.folder_of(name) / "root"))


def _known(name: str) -> Host | None:
    try:
        host = state.load(name)
    except RehearsalError:
        return None
    return host if host.root.is_dir() and host.key.is_file() else None


def _make(name: str) -> Host:
    folder = state.folder_of(name)
    folder.chmod(0o700)
    taken = set()
    for other in state.names():
        if (existing := _known(other)) is not None:
            taken |= {existing.ssh_port, existing.api_port}
            taken |= {existing.metrics_port, existing.exporter_port}
    ports = state.pick_ports(str(folder), 4, taken, state.port_is_free)
    host = Host(name, ports[0], ports[1], ports[2], ports[3])
    say(f"makes host {name} in {folder}")
    rootfs.unpack(host)
    return state.save(host)


def _boot(host: Host, private_network: bool) -> Host:
    if is_running(host.name):
        _stop(host)
    _clear_outside(host.name)
    if not private_network and not state.port_is_free(host.ssh_port):
        raise RehearsalError(
            f"rehearsal host {host.name}: its SSH port {host.ssh_port} is in use by another "
            f"program; stop that, or: python -m tests.rehearsal up --fresh --name {host.name}"
        )
    tag = state.tag_of(host.name)
    address = network.make(tag) if private_network else "127.0.0.1"
    host = replace(host, private_network=private_network, ssh_hostname=address, pid=0)
    host = replace(host, find_links=borrowed.find_links())
    rootfs.refresh(host)
    state.save(host)
    command = [
        "systemd-nspawn",
        "--quiet",
        f"--directory={host.root}",
        f"--machine={_unit(host.name)}",
        f"--hostname={host.name}",
        "--boot",
        "--register=no",
        "--keep-unit",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--console=pipe",
        *rootfs.binds(),
    ]
    if private_network:
        command.append(f"--network-namespace-path={network.namespace_path(tag)}")
    _start(host, command)
    _wait_until_ready(host)
    pid = next(iter(processes.supervisors(host.root)), 0)
    return state.save(replace(host, pid=pid))


def _start(host: Host, command: list[str]) -> None:
    host.console.unlink(missing_ok=True)
    host.console.touch()
    state.give_to_caller(host.console)
    if has_systemd():
        properties = (
            "Delegate=yes",
            "KillMode=mixed",
            "TasksMax=infinity",
            f"RestartForceExitStatus={_REBOOT}",
            f"SuccessExitStatus={_REBOOT}",
            *(f"Environment={name}={value}" for name, value in _NSPAWN_ENVIRONMENT.items()),
            f"StandardOutput=append:{host.console}",
            f"StandardError=append:{host.console}",
        )
        options = [f"--property={each}" for each in properties]
        run(
            [
                "systemd-run",
                "--quiet",
                "--collect",
                f"--unit={_unit(host.name)}",
                *options,
                *command,
            ]
        )
        return
    enter = "".join(
        f"echo 0 > {shlex.quote(str(group / 'cgroup.procs'))}; "
        for group in processes.make_cgroups(_unit(host.name))
    )
    script = f'while :; do ({enter}exec "$@"); [ $? -eq {_REBOOT} ] || exit; done'
    with host.console.open("ab") as console:
        subprocess.Popen(
            ["sh", "-c", script, _unit(host.name), *command],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,
            env=os.environ | _NSPAWN_ENVIRONMENT,
        )


def _wait_until_ready(host: Host) -> None:
    end = time.monotonic() + BOOT_SECONDS
    state_of_system = "no answer by SSH"
    while time.monotonic() < end:
        if _greets(host):
            state_of_system = _system_state(host)
            if state_of_system in ("running", "degraded"):
                return
        if not is_running(host.name) and not processes.wait(lambda: is_running(host.name), 1):
            state_of_system = "systemd-nspawn has ended"
            break
        time.sleep(0.1)
    lines = host.console.read_text(errors="replace").strip().splitlines()[-15:]
    raise RehearsalError(
        f"rehearsal host {host.name}: not ready within {BOOT_SECONDS} s ({state_of_system}); "
        "the end of its console:\n" + "\n".join(f"    {line}" for line in lines)
    )


def _answers(host: Host) -> bool:
    return is_running(host.name) and _system_state(host) in ("running", "degraded")


def _greets(host: Host) -> bool:
    try:
        with socket.create_connection((host.ssh_hostname, host.ssh_port), timeout=2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _system_state(host: Host) -> str:
    try:
        done = subprocess.run(
            host.ssh_command("systemctl is-system-running"),
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return "no answer by SSH"
    return done.stdout.strip() or done.stderr.strip()


def _stop(host: Host) -> None:
    if not processes.power_off(host.root, POWER_OFF_SECONDS):
        _kill(host.name)


def _kill(name: str) -> None:
    folder = state.folder_of(name)
    for root in (folder / "root", folder / "root.partial"):
        if not processes.kill(root):
            left = processes.members(root) + processes.supervisors(root)
            raise RehearsalError(f"rehearsal host {name}: processes {left} outlive SIGKILL")


def _clear(name: str) -> None:
    """Stop what runs and empty the host's folder; what it downloaded is kept."""
    folder = state.folder_of(name)
    processes.power_off(folder / "root", POWER_OFF_SECONDS)
    _kill(name)
    _clear_outside(name)
    for point in processes.mounts_below(folder):
        run(["umount", point])
    if (folder / "root").is_dir():
        rootfs.keep_packages(folder / "root")
    # First: with a state, what is left of the root would pass for a host.
    (folder / "state.json").unlink(missing_ok=True)
    for entry in folder.iterdir():
        rootfs.remove(entry)


def _clear_outside(name: str) -> None:
    """What a host has outside of its folder: unit, cgroups, network, nspawn's own leftovers."""
    if has_systemd():
        for verb in ("stop", "reset-failed"):
            subprocess.run(
                ["systemctl", "--quiet", verb, f"{_unit(name)}.service"],
                capture_output=True,
                check=False,
            )
    processes.remove_cgroups(_unit(name))
    network.remove(state.tag_of(name))
    nspawn = Path("/run/systemd/nspawn")
    shutil.rmtree(nspawn / "propagate" / _unit(name), ignore_errors=True)
    with contextlib.suppress(OSError):
        for folder in (nspawn / "propagate", nspawn / "locks", nspawn):
            folder.rmdir()


def _unit(name: str) -> str:
    """Name of the unit, the cgroup and nspawn's machine: no other clone's host has it."""
    return f"rehearsal-{name}-{state.tag_of(name)}"
