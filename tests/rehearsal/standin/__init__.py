"""Rehearsal hosts whose vLLM is a stand-in: for the mechanics of releases, starts and switches.

Everything is as with the real one (release, generation, unit, hostkit) but the wheel and the model,
which are made here. Such a host has a checkout of its own, in which only files/locks,
files/patches and files/compat differ, and every pyinfra run against it takes that one (deploys.py).
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..host import state

VERSIONS: dict[str, tuple[str, ...]] = {
    "0.30.0": (),
    "0.31.0": ("only-in-0-31",),
    "0.32.0": ("only-in-0-31",),
    "0.33.0": (),
}
"""Versions that a stand-in host can be given, with the flags that each knows besides the others."""

BROKEN = "0.33.0"
"""The version that installs and cannot be imported."""

DATA = {
    "served_model_name": "standin",
    "max_model_len": 2048,
    "ready_timeout_s": 15,
    "shutdown_timeout_s": 5,
    "restart_delay_s": 1,
    "metrics": False,
    "extra_index_urls": [],
    "extra_env": {},
}
"""What such a host's deploys are told besides (`--data` wins, and replaces `extra_env` whole)."""

LINKS = "/srv/standin"
"""Where the wheels lie on the host: the deploy's find_links."""

_SOURCE = Path(__file__).with_name("server.py")
_TIERS = Path(__file__).with_name("tiers.py")
_BREAKS = "import a_dependency_that_nobody_has\n"
_MAIN = "from vllm.standin import main\n"


def furnish(name: str, **data: Any) -> None:
    """Give the rehearsal host of that name, which is up, the stand-in's wheels, model, checkout."""
    host = state.load(name)
    wheels = {version: wheel(version) for version in VERSIONS}
    _upload(host, dict(wheels.values()))
    _make_checkout(host.folder / "checkout", {v: content for v, (_, content) in wheels.items()})
    model = _make_model(host.folder / "model")
    told = DATA | {"model": f"control:{model}", "find_links": [LINKS]} | data
    (host.folder / "data.json").write_text(json.dumps(told), encoding="utf-8")


def wheel(version: str) -> tuple[str, bytes]:
    """File name and content of the stand-in's wheel of that version: always the same bytes."""
    info = f"vllm_standin-{version}.dist-info"
    numbers = ", ".join(version.split("."))
    files = {
        "vllm/__init__.py": "",
        "vllm/_version.py": f"__version__ = version = '{version}'\n"
        f"__version_tuple__ = version_tuple = ({numbers})\n",
        "vllm/_custom_ops.py": "",
        "vllm/standin.py": _SOURCE.read_text(encoding="utf-8"),
        "vllm/bench.py": _SOURCE.with_name("bench.py").read_text(encoding="utf-8"),
        "vllm/standin_tiers.py": _TIERS.read_text(encoding="utf-8"),
        "vllm/blocks.py": _SOURCE.with_name("blocks.py").read_text(encoding="utf-8"),
        "vllm/flags.py": f"MORE_FLAGS = {VERSIONS[version]!r}\n",
        "vllm/entrypoints/__init__.py": "",
        "vllm/entrypoints/cli/__init__.py": "",
        "vllm/entrypoints/cli/main.py": _MAIN,
        "vllm/entrypoints/openai/__init__.py": "",
        "vllm/entrypoints/openai/api_server.py": _BREAKS if version == BROKEN else "",
        "vllm/v1/__init__.py": "",
        "vllm/v1/engine/__init__.py": "",
        "vllm/v1/engine/core.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: vllm-standin\nVersion: {version}\n"
        "Requires-Dist: pyyaml\n"
        + "".join(f"Requires-Dist: {name}\n" for name in ("torchaudio", "torchcodec"))
        + "Requires-Dist: torchvision\n\nA stand-in for tests.\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: standin\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nvllm = vllm.entrypoints.cli.main:main\n",
    }
    return f"vllm_standin-{version}-py3-none-any.whl", _zip(files, f"{info}/RECORD")


def _zip(files: Mapping[str, str], record: str) -> bytes:
    lines = []
    for path, text in files.items():
        digest = urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text.encode())}\n")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in {**files, record: "".join([*lines, f"{record},,\n"])}.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return buffer.getvalue()


def _upload(host: state.Host, files: Mapping[str, bytes]) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    command = host.ssh_command(f"mkdir -p {LINKS} && tar -xC {LINKS}")
    subprocess.run(command, input=buffer.getvalue(), check=True, timeout=60)


def _make_checkout(folder: Path, wheels: Mapping[str, bytes]) -> None:
    """The repository by links, but for the locks and the patch series of the stand-in."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "files").mkdir(parents=True)
    _link_all(state.REPOSITORY, folder, but=("files", ".git", ".rehearsal", "builds", "secrets"))
    _link_all(state.REPOSITORY / "files", folder / "files", but=("locks", "patches", "compat"))
    manifests = state.REPOSITORY / "files/compat"
    shutil.copytree(manifests, folder / "files/compat")
    for version in wheels.keys() - {path.name[5:] for path in manifests.glob("vllm-*")}:
        newest = max(manifests.glob("vllm-*"))
        shutil.copytree(newest, folder / f"files/compat/vllm-{version}")
    locks = folder / "files/locks"
    locks.mkdir()
    real = state.REPOSITORY / "files/locks"
    for name in ("tools.txt", "build.txt"):
        shutil.copy(real / name, locks)
    lock = _requirement((real / "vllm-0.31.0-cpu.txt").read_text(encoding="utf-8"), "pyyaml")
    for version, content in wheels.items():
        digest = hashlib.sha256(content).hexdigest()
        (locks / f"vllm-{version}-cpu.txt").write_text(lock)
        (locks / f"vllm-{version}-cpu.wheel.txt").write_text(
            f"vllm-standin=={version} --hash=sha256:{digest}\n"
        )
        series = folder / f"files/patches/vllm-{version}/series.toml"
        series.parent.mkdir(parents=True)
        series.write_text("# The stand-in needs no patch.\n")


def _link_all(source: Path, target: Path, but: tuple[str, ...]) -> None:
    for entry in source.iterdir():
        if entry.name not in but:
            (target / entry.name).symlink_to(entry)


def _requirement(lock: str, name: str) -> str:
    """One package's lines of a lock file, hashes included."""
    lines = lock.splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if line.startswith(f"{name}=="))
    block = [lines[first]]
    for line in lines[first + 1 :]:
        if not line.startswith(" "):
            break
        block.append(line)
    return "".join(block)


def _make_model(folder: Path) -> Path:
    """A model's folder that is complete as far as a deploy can see."""
    folder.mkdir(exist_ok=True)
    config = {"architectures": ["StandinForCausalLM"], "max_position_embeddings": 131072}
    (folder / "config.json").write_text(json.dumps(config))
    header = json.dumps({"weight": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(8)
    (folder / "model.safetensors").write_bytes(content)
    return folder
