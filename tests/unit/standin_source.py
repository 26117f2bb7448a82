"""A stand-in for vLLM's sources: a git repository, an imitation of GitHub's, and what builds it.

Its `setuptools` is one as well: its build_wheel runs the tree's own build.py, which prints what
ninja prints and keeps its "objects" in the tree.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

from tests.unit import standin_vllm as standin
from tests.unit.standin_host import Host
from tests.unit.standin_vllm import sha256

KERNEL = "".join(f"int kernel_{number};\n" for number in range(1, 31))
PATCHED_KERNEL = KERNEL.replace("int kernel_2;", "int kernel_two;")
STEPS = 3

_BACKEND = """\
import runpy
def build_wheel(folder):
    runpy.run_path("build.py", init_globals={"FOLDER": folder})
"""
# FAULT, a file in the tree's place for it, is what a test makes the build do.
_BUILD = f"""\
import base64, hashlib, os, pathlib, subprocess, sys, zipfile
objects = pathlib.Path("objects")
objects.mkdir(exist_ok=True)
todo = [n for n in range(1, {STEPS} + 1) if not (objects / str(n)).exists()]
fault = pathlib.Path(os.environ["PATH"].split(":")[0]) / "../../fault"
fault = fault.read_text() if fault.exists() else ""
for done, number in enumerate(todo, 1):
    print(f"[{{done}}/{{len(todo)}}] Building CXX object kernel_{{number}}.o", flush=True)
    if number == 2 and fault == "error":
        sys.exit("csrc/kernel.cpp:7:3: error: expected ';' before '}}' token")
    if number == 2 and fault == "hang":
        sleeper = subprocess.Popen(["sleep", "60"])
        pathlib.Path("sleeper").write_text(str(sleeper.pid))
        sleeper.wait()
        sys.exit(1)
    (objects / str(number)).write_text(os.environ["MAX_JOBS"])
import standin_dep
version = os.environ["VLLM_VERSION_OVERRIDE"]
info = f"vllm-{{version}}.dist-info"
with zipfile.ZipFile(f"{{FOLDER}}/vllm-{{version}}-py3-none-any.whl", "x") as archive:
    for path in sorted(pathlib.Path("vllm").rglob("*.py")):
        text = path.read_text()
        if path.name == "_version.py":
            text = text.replace("'1.2.3'", repr(version))
        archive.writestr(str(path), text)
    archive.writestr("vllm/kernel.txt", pathlib.Path("csrc/kernel.cpp").read_text())
    metadata = pathlib.Path("METADATA").read_text().replace("1.2.3", version)
    archive.writestr(f"{{info}}/METADATA", metadata.replace("vllm-standin", "vllm"))
    archive.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\n"
                     "Tag: py3-none-any\\n")
    record = f"{{info}}/RECORD,,\\n"
    for name in archive.namelist():
        digest = hashlib.sha256(archive.read(name)).digest()
        digest = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        record += f"{{name}},sha256={{digest}},\\n"
    archive.writestr(f"{{info}}/RECORD", record)
"""


def give_source(host: Host) -> str:
    """Make `host` build from source, with one patch of a compiled file; returns the commit."""
    repository = host.folder / "github/vllm"
    files = {
        path: content.decode()
        for path, content in standin.vllm_files().items()
        if path.endswith(".py")
    }
    files |= {"build.py": _BUILD, "csrc/kernel.cpp": KERNEL, "METADATA": standin.METADATA}
    for path, text in files.items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text)
    found = commit(repository)
    backend = standin.write_wheel(
        host.links / "setuptools-1.0-py3-none-any.whl",
        {
            "setuptools/__init__.py": b"",
            "setuptools/build_meta.py": _BACKEND.encode(),
            "setuptools-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: setuptools\n"
            b"Version: 1.0\n",
            "setuptools-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
            b"Tag: py3-none-any\n",
        },
    )
    host.pin("build.txt", "setuptools==1.0", backend)
    text = standin.diff({"csrc/kernel.cpp": (KERNEL, PATCHED_KERNEL)}, host.folder / "diff")
    (host.inputs / "patches/0001-a.patch").write_text(text)
    hashes = {"before": sha256(KERNEL), "after": sha256(PATCHED_KERNEL)}
    told: dict[str, Any] = {
        "route": "source",
        "source": f"{repository}@{found}",
        "patches": [{"name": "0001-a.patch", "files": {"csrc/kernel.cpp": hashes}}],
    }
    host.spec.update(told)
    return found


def tree(host: Host) -> Path:
    """Where the release's sources lie while they are compiled."""
    return host.root / "opt/vllm/build" / str(host.spec["name"])


def set_fault(host: Host, fault: str) -> None:
    tree(host).mkdir(parents=True, exist_ok=True)
    (tree(host) / "fault").write_text(fault)


def commit(repository: Path, tag: str = "vllm") -> str:
    """Make the folder a git repository with one tagged commit; returns that."""
    identity = {f"GIT_{who}_{what}": "test@example.invalid" for who in ("AUTHOR", "COMMITTER")
                for what in ("NAME", "EMAIL")}  # fmt: skip
    env = {**os.environ, **identity}
    for arguments in ("init --quiet", "add -A", "commit --quiet -m vllm", f"tag {tag}"):
        subprocess.run(["git", *arguments.split()], cwd=repository, env=env, check=True)
    head = ["git", "rev-parse", "HEAD"]
    return subprocess.run(
        head, cwd=repository, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()
