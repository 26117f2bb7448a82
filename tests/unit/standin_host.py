"""A stand-in for a host: a folder in which hostkit builds releases of the stand-in for vLLM."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.unit import standin_vllm as standin
from tests.unit.standin_vllm import SCHEDULER, sha256

NAME = "1.2.3-00123456789a"
INSTALLED = "1.2.3+cpu.patched.00123456789a"
HOSTKIT = Path("files/hostkit").resolve()
PATCHED = SCHEDULER.replace("line_2 = 2\n", "line_2 = 'patched'\n")


class Host:
    """A folder that hostkit takes for /, inputs to build from, and a find-links folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.links = folder / "links"
        self.inputs = folder / "inputs"
        self.releases = self.root / "opt/vllm/releases"
        self.release = self.releases / NAME
        self.links.mkdir(parents=True)
        (self.inputs / "patches").mkdir(parents=True)
        vllm = standin.write_wheel(self.links / standin.FILENAME, standin.vllm_files())
        dependency = standin.write_wheel(
            self.links / "standin_dep-1.0-py3-none-any.whl", standin.dependency_files()
        )
        self.pin("wheel.txt", "vllm-standin==1.2.3", vllm)
        self.pin("lock.txt", "standin-dep==1.0", dependency)
        (self.inputs / "tools.txt").write_text("# the tools of the test's own environment\n")
        self.spec: dict[str, object] = {
            "name": NAME,
            "version": "1.2.3",
            "installed_version": INSTALLED,
            "accelerator": "cpu",
            "patches": [],
            "drop_requirements": ["torchvision"],
            "python": sys.executable,
            "find_links": [str(self.links)],
            "extra_index_urls": [],
        }
        self.add_patch(SCHEDULER, PATCHED)
        self._give_tools()

    def pin(self, file: str, requirement: str, wheel: Path) -> None:
        digest = sha256(wheel.read_bytes())
        (self.inputs / file).write_text(f"{requirement} --hash=sha256:{digest}\n")

    def add_patch(self, before: str, after: str) -> None:
        text = standin.diff({"vllm/scheduler.py": (before, after)}, self.folder / "diff")
        (self.inputs / "patches/0001-a.patch").write_text(text)
        hashes = {"before": sha256(before), "after": sha256(after)}
        self.spec["patches"] = [{"name": "0001-a.patch", "files": {"vllm/scheduler.py": hashes}}]

    def _give_tools(self) -> None:
        """Stand in for the tools' own environment: pip, uv and wheel of the test's environment."""
        digest = sha256((self.inputs / "tools.txt").read_bytes())
        tools = self.root / "opt/vllm/tools" / digest[:12]
        (tools / "bin").mkdir(parents=True)
        commands = {"python": sys.executable, "pip": f"{sys.executable} -m pip"}
        commands["uv"] = f"{sys.executable} -m uv"
        for name, command in commands.items():
            (tools / "bin" / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (tools / "bin" / name).chmod(0o755)
        version = ".".join(map(str, sys.version_info[:3]))
        (tools / "complete").write_text(f"{digest} for {version}\n")

    def command(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        (self.inputs / "spec.json").write_text(json.dumps(self.spec))
        offline = {"PIP_NO_INDEX": "1", "UV_OFFLINE": "1", "HOSTKIT_ROOT": str(self.root)}
        return [sys.executable, "-IB", str(HOSTKIT), *arguments], {**os.environ, **offline}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command, env = self.command(*arguments)
        # An operator's umask may be strict.
        return subprocess.run(
            command, env=env, capture_output=True, text=True, check=False, umask=0o077
        )

    def build(self) -> subprocess.CompletedProcess[str]:
        return self.run("build-release", str(self.inputs))

    def start(self) -> subprocess.Popen[str]:
        command, env = self.command("build-release", str(self.inputs))
        return subprocess.Popen(
            command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def manifest(self) -> Any:
        return json.loads((self.release / "manifest.json").read_text())

    def site(self) -> Path:
        (found,) = self.release.glob("venv/lib/python3.*/site-packages")
        return found

    def leftovers(self) -> list[str]:
        """What a failed build must not leave: anything of the release or of its work folder."""
        work = self.root / "opt/vllm/work"
        names = [path.name for path in self.releases.glob("*") if path.name != ".lock"]
        return names + [path.name for path in work.glob("*")]


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a refusal consists of."""
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line.removeprefix("hostkit: ")


def check(host: Host, *options: str) -> tuple[int, str]:
    done = host.run("check-release", NAME, *options)
    return done.returncode, done.stdout
