"""The source route: vLLM's sources, pinned and patched, compiled on this machine.

The tree stays below /opt/vllm/build while it is being compiled, so that a build that was stopped
goes on where it was; what the compilers have made is what ninja finds there.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hostkit.host import memory, paths
from hostkit.host.jobs import progress
from hostkit.host.process import Failure, read_json, reason, run, write_atomic
from hostkit.release import built, compilers, inputs, installed, overlay, wheel
from hostkit.release.tooling import Tools

_REPORT_S = 5.0
_KEPT_LINES = 400
_STEP = re.compile(r"\[(\d+)/(\d+)\] ")
_ERROR = re.compile(
    r"\b(fatal )?error\b\s*:|^nvcc fatal|^CMake Error|No space left on device", re.I
)
# Thousands of lines that say nothing, and that the journal would count against us.
_NOISE = re.compile(r"\s*(copying|adding|creating|removing) ")
_PASSED_ON = re.compile(r"(https?|all|no)_proxy|SSL_CERT_(FILE|DIR)", re.IGNORECASE)
_BUILD_WHEEL = "import sys; from setuptools import build_meta as b; b.build_wheel(sys.argv[1])"


def compile_wheel(spec: inputs.Spec, tools: Tools, venv: Path) -> built.Made:
    """Compile the release's wheel and keep it; `venv` has the locked packages, torch among them.

    Raises Failure. A tree whose compilation was stopped stays, one that failed is removed.
    """
    folder = paths.TREES / spec.name
    jobs = _jobs(spec)
    toolchain = compilers.find(spec, venv)
    _remove_others(folder)
    build = _Build(spec, tools, folder, jobs, toolchain)
    build.make_environment(venv)
    outcomes = build.prepare()
    made = build.compile(outcomes)
    kept = built.keep(spec.name, made)
    shutil.rmtree(folder)
    return kept


def _jobs(spec: inputs.Spec) -> int:
    reader = memory.Reader()
    sample = reader.sample()
    reader.close()
    floor = spec.memory_floor_mib or memory.default_floor(sample.total)
    jobs = memory.jobs(sample, floor)
    if spec.build_jobs > jobs.fit:
        raise Failure(f"build_jobs = {spec.build_jobs} does not fit: {jobs.arithmetic}")
    progress(f"compile: MAX_JOBS={spec.build_jobs}; {jobs.arithmetic}")
    return spec.build_jobs


def _remove_others(folder: Path) -> None:
    """No more than one tree: they are large."""
    for other in paths.TREES.glob("*"):
        if other != folder:
            progress(f"remove the unfinished build of {other.name}")
            shutil.rmtree(other)


class _Build:
    """One tree being compiled."""

    def __init__(
        self,
        spec: inputs.Spec,
        tools: Tools,
        folder: Path,
        jobs: int,
        toolchain: compilers.Toolchain,
    ) -> None:
        self.spec = spec
        self.tools = tools
        self.folder = folder
        self.tree = folder / "tree"
        self.env_folder = folder / "env"
        self.python = self.env_folder / "bin/python"
        self.flags = {
            "VLLM_TARGET_DEVICE": spec.target_device,
            "VLLM_VERSION_OVERRIDE": spec.installed_version,
            "CMAKE_BUILD_TYPE": "Release",
            "MAX_JOBS": str(jobs),
            "NVCC_THREADS": "1",
            "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs),
            "CARGO_BUILD_JOBS": str(jobs),
            **toolchain.environment,
        }
        self.toolchain = toolchain
        self.doing = "compile"
        self.origin: Mapping[str, Any] = {}

    def make_environment(self, venv: Path) -> None:
        """The build tools, and behind them the release's own packages: compiled against its torch.

        The interpreter's path is part of what cmake remembers, so the folder is kept with the tree.
        """
        if not self.python.exists():
            shutil.rmtree(self.env_folder, ignore_errors=True)
            python = self.spec.python
            self.tools.uv("venv", "--no-managed-python", "--python", python, self.env_folder)
        self.tools.install_locked(self.env_folder, [self.spec.folder / "build.txt"])
        link = installed.site_packages(self.env_folder) / "release.pth"
        link.write_text(f"{installed.site_packages(venv)}\n", "utf-8")

    def prepare(self) -> tuple[overlay.Outcome, ...]:
        """Unpack and patch the tree, unless an earlier build of the same inputs has done so."""
        stamp = self.folder / "prepared.json"
        if stamp.is_file():
            noted = read_json(stamp)
            if noted.get("inputs") == self._decisive() and "source" in noted:
                progress("compile: goes on where an earlier build was stopped")
                self.doing = "compile, going on where it was stopped"
                self.origin = noted["source"]
                return tuple(overlay.Outcome(**each) for each in noted["outcomes"])
        shutil.rmtree(self.tree, ignore_errors=True)
        self.tree.mkdir(parents=True)
        progress(f"source: {self.spec.source}")
        if self.spec.compiles_sdist:
            self._unpack_sdist()
        else:
            self._check_out()
        progress(f"patch: {len(self.spec.patches)} patches onto the sources")
        outcomes = overlay.apply_series(self.tree, self.spec.patches, will_compile=True)
        try:
            overlay.report(outcomes)
        except Failure:
            shutil.rmtree(self.folder)
            raise
        # Now: what was downloaded may be gone when a later build goes on from here.
        self.origin = self._provenance()
        noted = {
            "inputs": self._decisive(),
            "outcomes": [vars(each) for each in outcomes],
            "source": self.origin,
        }
        write_atomic(stamp, json.dumps(noted) + "\n")
        return tuple(outcomes)

    def compile(self, outcomes: tuple[overlay.Outcome, ...]) -> built.Made:
        """Run the compilers until there is a wheel, and give it the release's name and needs."""
        began = time.monotonic()
        output = self.folder / "dist"
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir()
        command = [self.python, "-u", "-c", _BUILD_WHEEL, output]
        status, lines = self._follow([str(word) for word in command])
        if status:
            why = explain(lines, status)
            if status > 0:
                shutil.rmtree(self.folder)
            raise Failure(f"compile: {why}")
        (compiled,) = output.glob("*.whl")
        unpacked = self.folder / "unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir()
        spec, tools = self.spec, self.tools
        root = overlay.unpack(compiled, tools.python, unpacked, tools.keep_open)
        overlay.rename(root, spec.installed_version, compiled.name, spec.drop_requirements)
        packed = overlay.pack(root, tools.python, paths.WORK / "packed", tools.keep_open)
        origin = {
            "source": self.origin,
            "flags": self.flags,
            "compilers": self.toolchain.versions,
            "compiled": {"host": platform.node(), "python": self.spec.python},
            "compile_s": round(time.monotonic() - began, 1),
        }
        return built.Made(packed, outcomes, origin)

    def _follow(self, command: list[str]) -> tuple[int, list[str]]:
        """Run the build and tell how far it is; its exit status and its last lines."""
        lines: list[str] = []
        told = -_REPORT_S
        began = time.monotonic()
        with subprocess.Popen(
            command,
            cwd=self.tree,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=self.tools.keep_open,
        ) as building:
            for line in _lines(building):
                lines = [*lines[-_KEPT_LINES:], line]
                if not _NOISE.match(line):
                    print(line, flush=True)
                elapsed = time.monotonic() - began
                step = step_of(line, elapsed)
                if step and elapsed - told >= _REPORT_S:
                    told = elapsed
                    progress(f"{self.doing}: {step}, {_free_gib():.1f} GiB of memory left")
        return building.returncode, lines

    def _environment(self) -> dict[str, str]:
        own = [f"{self.env_folder}/bin", *self.toolchain.path]
        scratch = self.folder / "tmp"
        scratch.mkdir(exist_ok=True)
        return {
            **{key: text for key, text in os.environ.items() if _PASSED_ON.fullmatch(key)},
            "PATH": ":".join([*own, "/usr/local/bin", "/usr/bin", "/bin"]),
            "HOME": str(scratch),
            "TMPDIR": str(scratch),
            "LC_ALL": "C.UTF-8",
            "CCACHE_DIR": str(paths.DOWNLOADS / "ccache"),
            "CCACHE_BASEDIR": str(self.folder),
            "FETCHCONTENT_BASE_DIR": str(paths.DOWNLOADS / "cmake"),
            **self.flags,
        }

    def _unpack_sdist(self) -> None:
        archive = wheel.cached(self._pin(), paths.DOWNLOADS / "sdists", self._download, "*.tar.gz")
        options = ["-C", str(self.tree), "--strip-components=1", "--no-same-owner"]
        self.tools.run(["tar", "-xzf", archive, *options], f"unpack {archive.name}")

    def _download(self, to: Path) -> None:
        # Its metadata is asked for, under the plain version that the pin names.
        env = self._environment() | {
            "VLLM_TARGET_DEVICE": "empty",
            "VLLM_VERSION_OVERRIDE": self._pin().version,
        }
        kept = {key: text for key, text in os.environ.items() if key.startswith("PIP_")}
        self.tools.download_source(self.python, env | kept, to)

    def _check_out(self) -> None:
        """The tree of one commit, out of a bare repository that is kept."""
        url, _, commit = self.spec.source.rpartition("@")
        kept = paths.DOWNLOADS / "git" / re.sub(r"\W+", "-", url)
        # Without HOME, as systemd starts a unit, git would not look for /root/.netrc.
        env = {"HOME": str(Path.home()), **os.environ, "GIT_TERMINAL_PROMPT": "0"}
        env["LC_ALL"] = "C.UTF-8"
        git: list[str | Path] = ["git", "-C", kept]
        if not kept.is_dir():
            self.tools.run(["git", "init", "--quiet", "--bare", kept], "git init", env=env)
        try:
            run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], "git", env=env)
        except Failure:
            fetch = [*git, "fetch", "--quiet", "--depth=1", "--no-tags", url, commit]
            self.tools.run(fetch, f"fetch {commit[:12]} from {url}", env=env)
        archive = self.folder / "tree.tar"
        self.tools.run([*git, "archive", f"--output={archive}", commit], "git archive", env=env)
        self.tools.run(["tar", "-xf", archive, "-C", self.tree], "unpack the sources")
        archive.unlink()

    def _decisive(self) -> dict[str, str]:
        """The inputs that the tree is made of: spec.json also says how carefully to build it."""
        return {name: each for name, each in self.spec.inputs().items() if name != "spec.json"}

    def _pin(self) -> wheel.Pin:
        text = (self.spec.folder / "sdist.txt").read_text("utf-8")
        return wheel.parse_pin(text, several_hashes=True)

    def _provenance(self) -> Mapping[str, Any]:
        if self.spec.compiles_sdist:
            pin = self._pin()
            (archive,) = (paths.DOWNLOADS / "sdists" / pin.sha256).glob("*.tar.gz")
            return {"name": pin.name, "version": pin.version, "sha256": wheel.sha256(archive)}
        url, _, commit = self.spec.source.rpartition("@")
        return {"url": url, "commit": commit}


def step_of(line: str, elapsed_s: float) -> str:
    """How far ninja says it is, with an estimate of the rest; empty for any other line."""
    match = _STEP.match(line)
    if not match:
        return ""
    done, of = int(match[1]), int(match[2])
    left = elapsed_s / max(done, 1) * (of - done)
    return f"step {done}/{of}, {_minutes(elapsed_s)} so far, about {_minutes(left)} to go"


def explain(lines: list[str], status: int) -> str:
    """Why a build ended: the first error that a compiler named, or its last words."""
    if status < 0:
        return f"ended by signal {-status}; the next build goes on from here"
    errors = [line.strip() for line in lines if _ERROR.search(line)]
    return errors[0][:400] if errors else reason("\n".join(lines), status)


def _lines(building: "subprocess.Popen[str]") -> Iterator[str]:
    assert building.stdout
    for line in building.stdout:
        yield line.rstrip("\n")


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _free_gib() -> float:
    reader = memory.Reader()
    try:
        return reader.sample().available / 1024
    finally:
        reader.close()
