"""A stand-in for vLLM: a few small files in a real wheel, for the mechanics of a release."""

import base64
import hashlib
import importlib.util
import io
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

VERSION_FILE = """\
__version__ = version = '1.2.3'
__version_tuple__ = version_tuple = (1, 2, 3)
"""
MAIN = """\
def main():
    import importlib.metadata
    print(importlib.metadata.version("vllm"))
"""
SCHEDULER = "".join(f"line_{number} = {number}\n" for number in range(1, 41))
METADATA = """\
Metadata-Version: 2.4
Name: vllm-standin
Version: 1.2.3
Requires-Dist: standin-dep>=1
Requires-Dist: TorchVision; platform_machine != "riscv64"
Requires-Dist: torchvision-extras; extra == "bench"

Name: this is the description, not a header.
"""
# Like vLLM's own: the tag inside is not the one of the file's name.
WHEEL = (
    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: cp312-cp312-linux_x86_64\n"
)
FILENAME = "vllm_standin-1.2.3-py3-none-any.whl"


def vllm_files() -> dict[str, bytes]:
    """The stand-in's files, path to content; one is a real compiled module."""
    texts = {
        "vllm/__init__.py": "",
        "vllm/_version.py": VERSION_FILE,
        "vllm/_custom_ops.py": "",
        "vllm/scheduler.py": SCHEDULER,
        "vllm/entrypoints/__init__.py": "",
        "vllm/entrypoints/cli/__init__.py": "",
        "vllm/entrypoints/cli/main.py": MAIN,
        "vllm/entrypoints/openai/__init__.py": "",
        "vllm/entrypoints/openai/api_server.py": "",
        "vllm/v1/__init__.py": "",
        "vllm/v1/engine/__init__.py": "",
        "vllm/v1/engine/core.py": "",
        "vllm_standin-1.2.3.dist-info/METADATA": METADATA,
        "vllm_standin-1.2.3.dist-info/WHEEL": WHEEL,
    }
    return {
        **{path: text.encode() for path, text in texts.items()},
        "vllm/_standin_C.abi3.so": shared_object(),
    }


def shared_object() -> bytes:
    """A small real compiled module for the running Python."""
    found = importlib.util.find_spec("markupsafe._speedups")
    assert found
    assert found.origin
    return Path(found.origin).read_bytes()


def dependency_files() -> dict[str, bytes]:
    return {
        "standin_dep.py": b"",
        "standin_dep-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\n"
        b"Name: standin-dep\nVersion: 1.0\n",
        "standin_dep-1.0.dist-info/WHEEL": WHEEL.replace("cp312-cp312-linux_x86_64", "py3-none-any")
        .replace("false", "true")
        .encode(),
    }


def write_wheel(
    target: Path, files: dict[str, bytes], altered: Mapping[str, bytes] | None = None
) -> Path:
    """Write a wheel with a right RECORD, but for the files in `altered`."""
    info = next(path.split("/")[0] for path in files if ".dist-info/" in path)
    record = io.StringIO()
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.write(f"{path},sha256={digest},{len(content)}\n")
    record.write(f"{info}/RECORD,,\n")
    with zipfile.ZipFile(target, "w") as archive:
        for path, content in {**files, **(altered or {})}.items():
            archive.writestr(path, content)
        archive.writestr(f"{info}/RECORD", record.getvalue())
    return target


def unpack(files: dict[str, bytes], root: Path) -> Path:
    """The tree that unpacking a wheel of these files gives, RECORD included."""
    with zipfile.ZipFile(write_wheel(root.with_suffix(".whl"), files)) as archive:
        archive.extractall(root)
    return root


def diff(changes: Mapping[str, tuple[str | None, str | None]], scratch: Path) -> str:
    """A patch as git writes it: path to the text before and after, None for no file."""
    for side, index in (("a", 0), ("b", 1)):
        shutil.rmtree(scratch / side, ignore_errors=True)
        (scratch / side).mkdir(parents=True)
        for path, texts in changes.items():
            text = texts[index]
            if text is not None:
                (scratch / side / path).parent.mkdir(parents=True, exist_ok=True)
                (scratch / side / path).write_text(text)
    command = ["git", "diff", "--no-index", "--no-prefix", "a", "b"]
    return subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False).stdout


def sha256(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
