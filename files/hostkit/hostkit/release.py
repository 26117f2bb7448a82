"""Releases: the patched vLLM in a virtual environment of its own, built whole or not at all.

A release is complete once it has its manifest.json, which is written last. Everything before that
is thrown away by the next build, so a build may be killed anywhere.
"""

import contextlib
import fcntl
import itertools
import json
import os
import platform
import pwd
import shutil
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hostkit import inputs, installed, overlay, packages, paths, probe, wheel
from hostkit.jobs import progress
from hostkit.process import Failure, read_json, run, write_atomic

# Inputs that decide what is installed: a release of the same name must have been built of the same.
_DECISIVE = ("wheel.txt", "lock.txt", "plugins.txt")


_SPACE_GIB = {"cpu": 5, "cuda": 12}
"""What a build takes at most: the wheel, unpacked and packed again, and the environment."""


def build(folder: Path) -> bool:
    """Build the release of an inputs folder; False when it is there already, whole.

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
        try:
            _Builder(spec, target, lock).build()
        except BaseException as error:
            shutil.rmtree(target, ignore_errors=True)
            if isinstance(error, OSError):
                where = error.filename or target
                raise Failure(f"build {spec.name}: {where}: {error.strerror}") from error
            raise
        finally:
            shutil.rmtree(paths.WORK, ignore_errors=True)
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

    def __init__(self, spec: inputs.Spec, target: Path, lock: int) -> None:
        self.spec = spec
        self.target = target
        self.venv = target / "venv"
        # Children inherit the lock: one that outlives a killed build keeps the next from starting.
        self.keep_open = (lock,)
        self.started = time.monotonic()
        self.seconds: dict[str, float] = {}

    def build(self) -> None:
        spec = self.spec
        with self._step("tools", "build tools"):
            tools = self._tools()
        pin = wheel.parse_pin((spec.folder / "wheel.txt").read_text("utf-8"))
        with self._step("download", str(pin)):
            archive = wheel.cached(
                pin, paths.DOWNLOADS / "wheels", lambda to: self._download(tools, to)
            )
        with self._step("patch", f"{len(spec.patches)} patches onto {archive.name}"):
            unpacked = paths.WORK / "wheel"
            unpacked.mkdir(parents=True)
            root = overlay.unpack(archive, tools / "bin/python", unpacked, self.keep_open)
            outcomes = overlay.apply_series(root, spec.patches)
            _report(outcomes)
            overlay.rename(root, spec.installed_version, archive.name, spec.drop_requirements)
        with self._step("install", f"the locked packages, then vllm {spec.installed_version}"):
            with ThreadPoolExecutor(1) as pool:  # packing compresses on one core for a while
                packing = pool.submit(
                    overlay.pack,
                    root,
                    tools / "bin/python",
                    paths.WORK / "packed",
                    self.keep_open,
                )
                self.target.mkdir(parents=True)
                self._uv(tools, "venv", "--no-managed-python", "--python", spec.python, self.venv)
                self._install_locked(tools)
                packed = packing.result()
            self._install_packed(tools, packed)
            for folder in packages.folders(spec.folder):
                own = packages.pack(
                    folder, tools / "bin/python", paths.WORK / "own", self.keep_open
                )
                self._install_packed(tools, own)
        with self._step("check", "dependencies and files"):
            self._uv(tools, "pip", "check", "--python", self.venv)
            misrecorded = self._settle(tools)
        with self._step("probe", "every compiled module loads"):
            work = paths.WORK / "probe"
            work.mkdir(parents=True)
            probed = probe.probe(self.venv, spec.accelerator, work)
            packages.check_imports(self.venv, spec.imports, probe.environment(work))
        self._make_cache()
        self._write_manifest(pin, outcomes, probed, misrecorded, tools)

    @contextlib.contextmanager
    def _step(self, name: str, doing: str) -> Iterator[None]:
        progress(f"{name}: {doing}")
        begin = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - begin, 1)

    def _tools(self) -> Path:
        """A virtual environment with the pinned pip, uv and wheel, made once per set of pins."""
        python, pins = self.spec.python, self.spec.folder / "tools.txt"
        digest = wheel.sha256(pins)
        folder = paths.TOOLS / digest[:12]
        # A new Python of the distribution finds nothing in an environment of the old one.
        complete = f"{digest} for {installed.python_version(Path(python))}\n"
        stamp = folder / "complete"
        if stamp.is_file() and stamp.read_text("utf-8") == complete:
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        run(
            [python, "-m", "venv", folder],
            f"{python} -m venv (needs python3-venv)",
            keep_open=self.keep_open,
        )
        run(
            [folder / "bin/python", "-m", "pip", "install", *_PIP, *self._links(), "-r", str(pins)],
            "install the build tools",
            keep_open=self.keep_open,
        )
        write_atomic(stamp, complete)
        return folder

    def _download(self, tools: Path, to: Path) -> None:
        pins = self.spec.folder / "wheel.txt"
        run(
            [tools / "bin/pip", "download", *_PIP, *self._links(), "-r", pins, "-d", to],
            "download the wheel",
            keep_open=self.keep_open,
        )

    def _links(self) -> list[str]:
        return [f"--find-links={place}" for place in self.spec.find_links]

    def _install_locked(self, tools: Path, *options: str) -> None:
        spec = self.spec
        sources = self._links() or [f"--index={url}" for url in spec.extra_index_urls]
        # Every line is pinned by hash, so it does not matter which index a file comes from.
        checked = [
            "--require-hashes",
            "--no-deps",
            "--no-build",
            "--index-strategy=unsafe-best-match",
        ]
        files = [spec.folder / "lock.txt", spec.folder / "plugins.txt"]
        locks = [f"-r{file}" for file in files if file.is_file()]
        install = ["pip", "install", f"--python={self.venv}", *checked, *sources, *options, *locks]
        try:
            # What an earlier release brought is enough for the next one, without a network, too.
            self._uv(tools, *install, "--offline")
        except Failure:
            self._uv(tools, *install)

    def _settle(self, tools: Path) -> dict[str, str]:
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
            self._uv(tools, "cache", "clean", *packages)
            self._install_locked(tools, *(f"--reinstall-package={name}" for name in packages))
            found = installed.altered(self.venv)
        ours = [each.path for each in found if each.owner.startswith(("vllm-", "vllm_"))]
        if ours:
            raise Failure(f"{ours[0]} of vllm is not as it was packed here: check the disk")
        return {each.path: each.digest for each in found}

    def _install_packed(self, tools: Path, packed: Path) -> None:
        # No other release can use such a wheel, so the lasting cache is spared a copy.
        cache = f"--cache-dir={paths.WORK / 'uv'}"
        options = [cache, "--no-deps", "--no-index", "--compile-bytecode"]
        self._uv(tools, "pip", "install", f"--python={self.venv}", *options, packed)

    def _uv(self, tools: Path, *arguments: str | Path) -> str:
        env = {
            **os.environ,
            "UV_CACHE_DIR": str(paths.DOWNLOADS / "uv"),
            # An operator's own certificate authority is in the system's store only.
            "UV_SYSTEM_CERTS": "1",
            "UV_NO_PROGRESS": "1",
            "NO_COLOR": "1",
        }
        words = itertools.takewhile(str.isalpha, map(str, arguments))
        what = " ".join(["uv", *words])
        return run([tools / "bin/uv", *arguments], what, env=env, keep_open=self.keep_open)

    def _make_cache(self) -> None:
        cache = self.target / "cache"
        cache.mkdir()
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(paths.SERVICE_USER)
            os.chown(cache, user.pw_uid, user.pw_gid)

    def _write_manifest(
        self,
        pin: wheel.Pin,
        outcomes: Sequence[overlay.Outcome],
        probed: probe.Probed,
        misrecorded: Mapping[str, str],
        tools: Path,
    ) -> None:
        spec = self.spec
        hashes = {patch.name: patch for patch in spec.patches}
        manifest = {
            "name": spec.name,
            "vllm": spec.installed_version,
            "route": "overlay",
            "accelerator": spec.accelerator,
            "wheel": {"name": pin.name, "version": pin.version, "sha256": pin.sha256},
            "patches": [
                {
                    "name": outcome.name,
                    "state": outcome.state,
                    "files": {
                        path: {"before": change.before, "after": change.after}
                        for path, change in hashes[outcome.name].files.items()
                    },
                }
                for outcome in outcomes
            ],
            "drop_requirements": list(spec.drop_requirements),
            "inputs": spec.inputs(),
            "python": installed.python_version(self.venv / "bin/python"),
            "packages": self._uv(tools, "pip", "freeze", "--python", self.venv).splitlines(),
            "records": installed.records(self.venv),
            "misrecorded": misrecorded,
            "modules": {"loaded": probed.loaded, "skipped": probed.skipped},
            "built_at": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "host": platform.node(),
            "duration_s": round(time.monotonic() - self.started, 1),
            "seconds": self.seconds,
        }
        # The manifest vouches for all that came before it, also after a power cut.
        os.sync()
        write_atomic(self.target / "manifest.json", json.dumps(manifest, indent=2) + "\n")


_PIP = (
    "--disable-pip-version-check",
    "--no-input",
    "--no-cache-dir",
    "--progress-bar=off",
    "--no-deps",
    "--only-binary=:all:",
    "--require-hashes",
)


def register(subparsers: Any) -> None:
    """Add `build-release` and `check-release`."""
    parser = subparsers.add_parser("build-release", help="build the release of an inputs folder")
    parser.add_argument("inputs", type=Path, metavar="INPUTS_DIR")
    parser.set_defaults(run=_build_command)
    parser = subparsers.add_parser("check-release", help="is a release as it was built?")
    parser.add_argument("name")
    parser.add_argument("--deep", action="store_true", help="hash every installed file")
    parser.set_defaults(run=_check_command)


def _build_command(args: Namespace) -> int:
    started = time.monotonic()
    name = inputs.read_spec(args.inputs).name
    if build(args.inputs):
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
    user = _process_using(target)
    if user is not None:
        raise Failure(
            f"release {target.name} is damaged, and process {user} runs from it:"
            f" systemctl stop {paths.UNIT}, then run this again"
        )
    progress(f"remove what is left of an earlier build of {target.name}")
    shutil.rmtree(paths.WORK, ignore_errors=True)
    if target.exists():
        shutil.rmtree(target)


def _process_using(target: Path) -> int | None:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if f"{target}/" in (entry / "maps").read_text("utf-8", "replace"):
                    return int(entry.name)
    return None


def _report(outcomes: Sequence[overlay.Outcome]) -> None:
    """Name every patch's outcome; raises Failure with the reason of each that failed."""
    for outcome in outcomes:
        print(f"  {outcome.name}: {outcome.state}", flush=True)
    failed = [each for each in outcomes if each.state == overlay.FAIL]
    if failed:
        raise Failure(
            "nothing was installed: "
            + " | ".join(f"patch {each.name}: FAIL: {each.reason}" for each in failed)
        )
