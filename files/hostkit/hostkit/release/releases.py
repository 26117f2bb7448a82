"""Releases: the patched vLLM in a virtual environment of its own, built whole or not at all.

A release is complete once it has its manifest.json, which is written last. Everything before that
is thrown away by the next build, so a build may be killed anywhere.
"""

import contextlib
import fcntl
import json
import os
import platform
import shutil
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hostkit.host import guard, guardlog, paths, serviceuser
from hostkit.host.jobs import progress
from hostkit.host.process import Failure, read_json, write_atomic
from hostkit.release import built, inputs, installed, jit, overlay, packages, probe, source, wheel
from hostkit.release.tooling import Tools

# Inputs that decide what is installed: a release of the same name must have been built of the same.
_DECISIVE = ("wheel.txt", "lock.txt", "plugins.txt")

_SPACE_GIB = {"cpu": 5, "cuda": 12}
"""What a build takes at most: the wheel, unpacked and packed again, and the environment."""


def build(folder: Path, by: str = "") -> bool:
    """Build the release of an inputs folder; False when it is there already, whole.

    `by` is who wants it, for the manifest.

    Waits while another build works. Raises Failure with nothing of the release left.
    """
    spec = inputs.read_spec(folder)
    target = paths.RELEASES / spec.name
    if _is_built(spec, target):
        return False
    os.umask(0o022)
    with _exclusive() as lock:
        if _is_built(spec, target):
            return False
        _clear(target)
        _require_space(spec.accelerator)
        if ended := guardlog.last("build"):
            when = datetime.fromtimestamp(ended["at"], timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
            progress(f"the last build was {ended['reason']} ({when})")
        try:
            with guard.watching("build", spec.memory_floor_mib) as watched:
                _Builder(spec, target, lock, by).build(watched)
        except BaseException as error:
            shutil.rmtree(target, ignore_errors=True)
            if isinstance(error, OSError):
                where = error.filename or target
                raise Failure(f"build {spec.name}: {where}: {error.strerror}") from error
            raise
        finally:
            shutil.rmtree(paths.WORK, ignore_errors=True)
    guardlog.forget("build")
    return True


def _require_space(accelerator: str) -> None:
    free_gib = shutil.disk_usage(paths.OPT).free / 1024**3
    if free_gib < _SPACE_GIB[accelerator]:
        raise Failure(
            f"{free_gib:.1f} GiB are free under {paths.OPT}, and this build needs"
            f" {_SPACE_GIB[accelerator]}: remove releases that no generation needs"
        )


class _Builder:
    """The steps of one build, in order."""

    def __init__(self, spec: inputs.Spec, target: Path, lock: int, by: str) -> None:
        self.spec = spec
        self.by = by
        self.target = target
        self.venv = target / "venv"
        # Children inherit the lock: one that outlives a killed build keeps the next from starting.
        self.tools = Tools(spec, (lock,))
        self.started = time.monotonic()
        self.seconds: dict[str, float] = {}

    def build(self, watched: guard.Watched) -> None:
        spec, tools = self.spec, self.tools
        with self._step("tools", "build tools"):
            tools.make()
        made = self._from_source() if spec.route == "source" else self._from_wheel()
        with self._step("vllm", f"install vllm {spec.installed_version}"):
            tools.install_wheel(self.venv, made.wheel)
            for folder in packages.folders(spec.folder):
                target = paths.WORK / "own"
                own = packages.pack(folder, tools.python, target, tools.keep_open)
                tools.install_wheel(self.venv, own)
        with self._step("check", "dependencies and files"):
            tools.uv("pip", "check", "--python", self.venv)
            misrecorded = self._settle()
        with self._step("probe", "every compiled module loads"):
            work = paths.WORK / "probe"
            work.mkdir(parents=True)
            kernels = spec.target_device != "empty"
            probed = probe.probe(self.venv, spec.accelerator, work, kernels=kernels)
            packages.check_imports(self.venv, spec.imports, probe.environment(work))
        self._make_cache()
        modules: Mapping[str, str] = {}
        if spec.accelerator == "cuda":
            with self._step("jit", "FlashInfer's modules"):
                cache = self.target / "cache"
                modules = jit.build(self.venv, cache, spec.cuda_arch_list, spec.build_jobs)
        self._write_manifest(made, probed, misrecorded, modules, watched)

    def _from_wheel(self) -> built.Made:
        """The overlay route: vLLM's own wheel, patched and packed again."""
        spec, tools = self.spec, self.tools
        pin = wheel.parse_pin((spec.folder / "wheel.txt").read_text("utf-8"))
        with self._step("download", str(pin)):
            archive = wheel.cached(pin, paths.DOWNLOADS / "wheels", tools.download_wheel)
        with self._step("patch", f"{len(spec.patches)} patches onto {archive.name}"):
            unpacked = paths.WORK / "wheel"
            unpacked.mkdir(parents=True)
            root = overlay.unpack(archive, tools.python, unpacked, tools.keep_open)
            outcomes = overlay.apply_series(root, spec.patches)
            overlay.report(outcomes)
            overlay.rename(root, spec.installed_version, archive.name, spec.drop_requirements)
        with ThreadPoolExecutor(1) as pool:  # packing compresses on one core for a while
            target = paths.WORK / "packed"
            packing = pool.submit(overlay.pack, root, tools.python, target, tools.keep_open)
            self._make_environment()
            packed = packing.result()
        origin = {"name": pin.name, "version": pin.version, "sha256": pin.sha256}
        return built.Made(packed, tuple(outcomes), {"wheel": origin})

    def _from_source(self) -> built.Made:
        """The source route, unless the wheel of this very release was compiled before."""
        self._make_environment()
        made = built.find(self.spec.name)
        if made is not None:
            progress(f"compile: not needed, {made.wheel.name} is kept")
            return made
        with self._step("compile", f"vllm {self.spec.installed_version}"):
            return source.compile_wheel(self.spec, self.tools, self.venv)

    def _make_environment(self) -> None:
        with self._step("install", "the locked packages"):
            self.target.mkdir(parents=True)
            python = self.spec.python
            self.tools.uv("venv", "--no-managed-python", "--python", python, self.venv)
            self.tools.install_locked(self.venv, self.spec.locks())

    @contextlib.contextmanager
    def _step(self, name: str, doing: str) -> Iterator[None]:
        progress(f"{name}: {doing}")
        begin = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - begin, 1)

    def _settle(self) -> dict[str, str]:
        """The installed files that differ from their RECORD and are right all the same.

        Some packages are published like that. What a power cut tore in uv's cache, out of which
        files come unchecked, looks the same: such a package is downloaded again, checked by hash.
        """
        found = installed.altered(self.venv)
        known = installed.misrecorded_before()
        names = {each.owner for each in found if known.get(each.path) != each.digest}
        if names:
            packages = sorted(name.split("-")[0] for name in names)
            progress(f"check: {', '.join(packages)} not as packed: download again")
            self.tools.uv("cache", "clean", *packages)
            again = (f"--reinstall-package={name}" for name in packages)
            self.tools.install_locked(self.venv, self.spec.locks(), *again)
            found = installed.altered(self.venv)
        ours = [each.path for each in found if each.owner.startswith(("vllm-", "vllm_"))]
        if ours:
            raise Failure(f"{ours[0]} of vllm is not as it was packed here: check the disk")
        return {each.path: each.digest for each in found}

    def _make_cache(self) -> None:
        cache = self.target / "cache"
        cache.mkdir()
        user = serviceuser.account()
        if user:
            os.chown(cache, user.pw_uid, user.pw_gid)

    def _write_manifest(
        self,
        made: built.Made,
        probed: probe.Probed,
        misrecorded: Mapping[str, str],
        jit_modules: Mapping[str, str],
        watched: guard.Watched,
    ) -> None:
        spec = self.spec
        hashes = {patch.name: patch for patch in spec.patches}
        manifest = {
            "name": spec.name,
            "vllm": spec.installed_version,
            "route": spec.route,
            "accelerator": spec.accelerator,
            **made.origin,
            "patches": [
                {
                    "name": outcome.name,
                    "state": outcome.state,
                    "files": {
                        path: {"before": change.before, "after": change.after}
                        for path, change in hashes[outcome.name].files.items()
                    },
                }
                for outcome in made.outcomes
            ],
            "drop_requirements": list(spec.drop_requirements),
            "inputs": spec.inputs(),
            "python": installed.python_version(self.venv / "bin/python"),
            "packages": self.tools.uv("pip", "freeze", "--python", self.venv).splitlines(),
            "records": installed.records(self.venv),
            "misrecorded": misrecorded,
            "modules": {"loaded": probed.loaded, "skipped": probed.skipped},
            "jit": dict(jit_modules),
            "memory": watched.figures(),
            "built_by": self.by,
            "built_at": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "host": platform.node(),
            "duration_s": round(time.monotonic() - self.started, 1),
            "seconds": self.seconds,
        }
        # The manifest vouches for all that came before it, also after a power cut.
        os.sync()
        write_atomic(self.target / "manifest.json", json.dumps(manifest, indent=2) + "\n")


def register(subparsers: Any) -> None:
    """Add `build-release` and `check-release`."""
    parser = subparsers.add_parser("build-release", help="build the release of an inputs folder")
    parser.add_argument("inputs", type=Path, metavar="INPUTS_DIR")
    parser.add_argument("--by", default="", help="who wants it, for the manifest")
    parser.set_defaults(run=_build_command, fetches=True)
    parser = subparsers.add_parser("check-release", help="is a release as it was built?")
    parser.add_argument("name")
    parser.add_argument("--deep", action="store_true", help="hash every installed file")
    parser.set_defaults(run=_check_command)


def _build_command(args: Namespace) -> int:
    started = time.monotonic()
    name = inputs.read_spec(args.inputs).name
    if build(args.inputs, args.by):
        progress(f"release {name}: built in {time.monotonic() - started:.0f} s")
    else:
        progress(f"release {name}: already built")
    return 0


def _check_command(args: Namespace) -> int:
    wrong = installed.damage(paths.RELEASES / Path(args.name).name, args.deep)
    print(f"release {args.name}: {'damaged: ' + wrong if wrong else 'intact'}")
    return 1 if wrong else 0


def _is_built(spec: inputs.Spec, target: Path) -> bool:
    """Is the release complete and intact? Raises Failure when it was built of other inputs."""
    if not (target / "manifest.json").is_file():
        return False
    if installed.damage(target):
        return False
    built_of = read_json(target / "manifest.json")["inputs"]
    now = spec.inputs()
    for name in sorted(name for name in {*built_of, *now} if _decides(name)):
        if built_of.get(name) != now.get(name):
            raise Failure(
                f"release {spec.name} was built of another {name}:"
                " a changed input needs another release name"
            )
    return True


def _decides(name: str) -> bool:
    return name in _DECISIVE or name.startswith(("patches/", "packages/"))


@contextlib.contextmanager
def _exclusive() -> Iterator[int]:
    """Hold the builders' lock; says so when it has to wait for another one."""
    paths.RELEASES.mkdir(parents=True, exist_ok=True)
    with (paths.RELEASES / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting: another build is at work on this host")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _clear(target: Path) -> None:
    """Make room for a new build; never from under a process that runs from the old one."""
    if not target.exists() and not paths.WORK.exists():
        return
    user = process_using(target)
    if user is not None:
        raise Failure(
            f"release {target.name} is damaged, and process {user} runs from it:"
            f" systemctl stop {paths.UNIT}, then run this again"
        )
    progress(f"remove what is left of an earlier build of {target.name}")
    shutil.rmtree(paths.WORK, ignore_errors=True)
    if target.exists():
        shutil.rmtree(target)


def process_using(target: Path) -> int | None:
    """A process that runs from a release, None when there is none."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if f"{target}/" in (entry / "maps").read_text("utf-8", "replace"):
                    return int(entry.name)
    return None
