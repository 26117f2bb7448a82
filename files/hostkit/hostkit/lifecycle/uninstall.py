"""Removes what the deploy brought, and says what it leaves."""

import argparse
import contextlib
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from hostkit.host import lock, network, paths, serviceuser, units
from hostkit.host.jobs import progress
from hostkit.host.process import Failure, run
from hostkit.lifecycle import foreign
from hostkit.serving import idle, outlook

UNITS = paths.ROOT / "etc/systemd/system"
DATA = paths.ROOT / "var/lib/vllm"
MOUNTINFO = Path("/proc/self/mountinfo")
PACKAGES = DATA / "installed-packages"
"""Names of packages that a deploy installed and that were not there before it."""
MASKED = DATA / "masked-units"
"""Units of those packages that the deploy keeps from starting by themselves."""
OURS = "# Managed by the vLLM deploy"
CHOICES = ("user", "packages", "models", "kv")


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("uninstall", help="remove the service and its files")
    parser.add_argument("--also", action="append", default=[], choices=CHOICES)
    parser.add_argument("--kv-dir", default=str(DATA / "kv"))
    parser.add_argument("--force", action="store_true", help="although the server is in use")
    parser.add_argument("--by", default="", help="who asks")
    parser.add_argument("--dry-run", action="store_true", help="exit 1 with what would go")
    parser.set_defaults(run=uninstall)


def plan(also: Collection[str], kv: Path) -> list[str]:
    """What an uninstall would remove and keep, a line each."""
    folders = [folder for folder in (*_folders(), paths.OPT) if folder.exists()]
    lines = [f"would remove {path}" for path in (*_units(), *folders)]
    for name, folder in (("models", DATA / "models"), ("kv", kv)):
        if folder.exists():
            size = f"{outlook.size(folder) / 1e9:.1f} GB"
            lines.append(f"{_would(name in also)} {folder}, {size} ({name})")
    if names := _listed(PACKAGES):
        lines.append(f"{_would('packages' in also)} packages {' '.join(names)}")
    if serviceuser.account() is not None:
        lines.append(f"{_would('user' in also)} user {paths.SERVICE_USER}")
    return lines


def _would(remove: bool) -> str:
    return "would remove" if remove else "would keep"


def uninstall(args: argparse.Namespace) -> int:
    """Everything but what is kept; may be repeated. hostkit itself goes last."""
    if args.dry_run:
        print("\n".join(plan(args.also, Path(args.kv_dir))))
        return 1
    with lock.held("uninstalling", args.by):
        if not args.force:
            idle.require(0)
        _remove_units()
        for line in foreign.put_back():
            progress(line)
        _remove(_folders())
        _forget_certificates()
        kv = Path(args.kv_dir)
        for name, folder in (("models", DATA / "models"), ("kv", kv)):
            if name in args.also:
                _remove([folder])
            elif folder.exists():
                progress(f"kept: {folder}, {outlook.size(folder) / 1e9:.1f} GB ({name})")
        _packages("packages" in args.also)
        _user("user" in args.also)
        with contextlib.suppress(OSError):
            DATA.rmdir()
        _remove([paths.OPT])
    shutil.rmtree(paths.RUN, ignore_errors=True)
    return 0


def _folders() -> list[Path]:
    return [paths.ETC, DATA / "home", foreign.BACKUPS, paths.HEALTH, DATA / "prometheus"]


def _units() -> list[Path]:
    """Only files that say they are ours: someone's own vllm-proxy.service stays."""
    return [
        file
        for file in sorted(UNITS.glob("vllm*"))
        if file.is_file() and file.read_text(errors="replace").startswith(OURS)
    ]


def _remove_units() -> None:
    found = _units()
    for file in found:
        with contextlib.suppress(Failure):
            units.systemctl("disable", "--now", "--quiet", file.name)
    for file in found:
        file.unlink()
        progress(f"removed: {file}")
    shutil.rmtree(paths.ROOT / "run/systemd/system/vllm.service.d", ignore_errors=True)
    units.systemctl("daemon-reload")
    for file in found:
        with contextlib.suppress(Failure):
            units.systemctl("reset-failed", file.name)


def _remove(folders: list[Path]) -> None:
    points = mount_points(MOUNTINFO.read_text("utf-8", "replace"))
    for folder in folders:
        if not folder.exists():
            continue
        kept = clear(folder.resolve(), points)
        for each in kept:
            progress(f"kept: {each}, which is mounted there")
        if not kept:
            progress(f"removed: {folder}")


def mount_points(table: str) -> set[Path]:
    """Where something is mounted, by the text of /proc/self/mountinfo."""
    fields = (line.split() for line in table.splitlines())
    unescape = re.compile(r"\\([0-7]{3})")
    return {Path(unescape.sub(lambda m: chr(int(m[1], 8)), row[4])) for row in fields}


def clear(folder: Path, points: set[Path]) -> list[Path]:
    """Remove a folder but for what is mounted in it, which is somebody's data; that is returned."""
    if folder in points:
        return [folder]
    if not any(folder in point.parents for point in points):
        shutil.rmtree(folder)
        return []
    kept = []
    for entry in list(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            kept += clear(entry, points)
        else:
            entry.unlink()
    if not kept:
        folder.rmdir()
    return kept


def _forget_certificates() -> None:
    """The authorities of the operator's network that only a deploy made this system trust."""
    if network.CERTIFICATES.exists():
        _remove([network.CERTIFICATES])
        run(["update-ca-certificates"], "update-ca-certificates")


def _packages(remove: bool) -> None:
    names, masked = _listed(PACKAGES), _listed(MASKED)
    if not names:
        return
    if not remove:
        progress(f"kept: packages {' '.join(names)}")
        for unit in masked:
            progress(f"kept: {unit} is masked, or it would start at the next boot")
        return
    command = ["apt-get", "remove", "--yes", "--quiet", *names]
    run(["env", "DEBIAN_FRONTEND=noninteractive", *command], "apt-get remove")
    for unit in masked:
        units.systemctl("unmask", "--quiet", unit)
    PACKAGES.unlink()
    MASKED.unlink(missing_ok=True)
    progress(f"removed: packages {' '.join(names)}")


def _listed(file: Path) -> list[str]:
    return sorted(set(file.read_text().split())) if file.is_file() else []


def _user(remove: bool) -> None:
    if serviceuser.account() is None:
        return
    if remove:
        run(["userdel", paths.SERVICE_USER], "userdel")
        progress(f"removed: user {paths.SERVICE_USER}")
    else:
        progress(f"kept: user {paths.SERVICE_USER}, whose files there may be")
