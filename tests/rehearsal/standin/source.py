"""A git repository on a rehearsal host, an imitation of GitHub, with a stand-in for vLLM's sources.

Its setup.py prints what ninja prints, keeps its "objects" in the tree, and does what the file FAULT
on the host tells it to; setuptools, git, pip and uv are the real ones.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile

from .. import deploys
from ..host import state
from . import wheel

REPOSITORY = "/srv/github/vllm"
FAULT = "/srv/github/fault"
STEPS = 8

_SETUP = f"""\
import os, pathlib, subprocess, time
from setuptools import find_packages, setup
fault = pathlib.Path("{FAULT}").read_text().strip() if os.path.exists("{FAULT}") else ""
objects = pathlib.Path("objects")
objects.mkdir(exist_ok=True)
todo = [n for n in range(1, {STEPS} + 1) if not (objects / str(n)).exists()]
for done, number in enumerate(todo, 1):
    print(f"[{{done}}/{{len(todo)}}] Building CXX object kernel_{{number}}.o", flush=True)
    if number == 3 and fault:
        subprocess.run(fault.split(), check=True)
    time.sleep(0.3)
    (objects / str(number)).write_text("")
setup(
    name="vllm",
    version=os.environ["VLLM_VERSION_OVERRIDE"],
    packages=find_packages(),
    install_requires=["pyyaml", "torchaudio", "torchcodec", "torchvision"],
    entry_points={{"console_scripts": ["vllm = vllm.entrypoints.cli.main:main"]}},
)
"""


def give(name: str, version: str = "0.31.0") -> str:
    """Put the repository onto the host; returns what `vllm_source` names it by."""
    buffer = io.BytesIO()
    content = wheel(version)[1]
    with (
        zipfile.ZipFile(io.BytesIO(content)) as archive,
        tarfile.open(fileobj=buffer, mode="w") as packed,
    ):
        files = {path: archive.read(path) for path in archive.namelist() if ".py" in path[-3:]}
        for path, text in {**files, "setup.py": _SETUP.encode()}.items():
            member = tarfile.TarInfo(path)
            member.size = len(text)
            packed.addfile(member, io.BytesIO(text))
    # The same commit on every host.
    dates = "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z GIT_COMMITTER_DATE=2026-01-01T00:00:00Z"
    git = f"{dates} git -c user.name=test -c user.email=test@example.invalid"
    command = state.load(name).ssh_command(
        f"rm -rf {REPOSITORY} {FAULT}; mkdir -p {REPOSITORY}; cd {REPOSITORY} && tar -x && "
        f"git init -q && git add -A && {git} commit -q -m vllm"
    )
    subprocess.run(command, input=buffer.getvalue(), check=True, timeout=60)
    commit = deploys.on_host(f"git -C {REPOSITORY} rev-parse HEAD", host=name)
    return f"file://{REPOSITORY}@{commit}"


def set_fault(name: str, command: str) -> None:
    """What the third step of a build runs instead of ending; an empty text for nothing."""
    deploys.on_host(f"cat > {FAULT}", host=name, stdin=command)
