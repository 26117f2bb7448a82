"""vLLM's own files with our patches: the real module out of the real wheel, loaded by itself."""

import importlib.util
import os
import subprocess
import sys
import time
import tomllib
import types
import zipfile
from pathlib import Path

import pytest

from hostkit.release import overlay, wheel

PATCHES = Path("files/patches/vllm-0.31.0")
PIN = wheel.parse_pin(Path("files/locks/vllm-0.31.0-cpu.wheel.txt").read_text())
IO = "vllm/v1/kv_offload/tiering/fs/io.py"
C_MODULE = "vllm/fs_io_C.abi3.so"
BLOCK = 4096
OLD = 1_000_000_000  # 2001, in seconds


@pytest.fixture(scope="session")
def vllm_wheel() -> Path:
    """vLLM's wheel of the lock, downloaded once for all clones of this user."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vllm-rehearsal"

    def download(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        kind = ["--only-binary=:all:", "--platform=manylinux_2_28_x86_64"]
        pins = "files/locks/vllm-0.31.0-cpu.wheel.txt"
        subprocess.run([*pip, *kind, "--requirement", pins, "--dest", str(folder)], check=True)

    return wheel.cached(PIN, cache / "wheels", download)


@pytest.fixture(scope="session")
def series() -> list[overlay.Patch]:
    entries = tomllib.loads((PATCHES / "series.toml").read_text())["patch"]
    return [
        overlay.Patch(
            (PATCHES / each["name"]).resolve(),
            {
                path: overlay.Change(change.get("before"), change["after"])
                for path, change in each["files"].items()
            },
        )
        for each in entries
    ]


@pytest.fixture(scope="session")
def patched(vllm_wheel, series, tmp_path_factory) -> Path:
    """What of the wheel the patches touch, with all of them applied; and vLLM's C module for it."""
    root: Path = tmp_path_factory.mktemp("vllm")
    with zipfile.ZipFile(vllm_wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
        changed = {path for each in series for path, change in each.files.items() if change.before}
        archive.extractall(root, [*changed, *names])
        (root / C_MODULE).write_bytes(without_torch(archive.read(C_MODULE)))
    outcomes = overlay.apply_series(root, series)
    assert [each.state for each in outcomes] == [overlay.APPLIED] * len(series), outcomes
    return root


def without_torch(module: bytes) -> bytes:
    """vLLM's C module links torch's libraries and uses nothing of them: let libc stand for each."""
    for library in (b"libtorch.so", b"libtorch_cpu.so", b"libc10.so"):
        assert module.count(b"\0" + library + b"\0") == 1
        name = b"libc.so.6".ljust(len(library), b"\0")
        module = module.replace(b"\0" + library + b"\0", b"\0" + name + b"\0")
    return module


def test_every_patch_applies_to_the_real_wheel_and_then_is_already_present(patched, series):
    states = [each.state for each in overlay.apply_series(patched, series)]
    assert states == [overlay.PRESENT] * len(series)


def test_every_patched_file_is_valid_python(patched, series):
    for path in {path for patch in series for path in patch.files}:
        compile((patched / path).read_text(), path, "exec")


@pytest.fixture(params=["python", "c"])
def fs_io(patched, request, monkeypatch):
    """The patched module: with its loader in Python, and with the one in C that vLLM prefers."""
    package = types.ModuleType("vllm")
    package.__path__ = [str(patched / "vllm")] if request.param == "c" else []
    for name in ("vllm", "vllm.fs_io_C"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "vllm", package)
    spec = importlib.util.spec_from_file_location("fs_io", patched / IO)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (request.param == "c") == module._HAS_FSIO_C
    return module


@pytest.fixture
def blocks(tmp_path: Path) -> list[Path]:
    """Three block files that were last used long ago."""
    files = [tmp_path / f"{number}.bin" for number in range(3)]
    for number, file in enumerate(files):
        file.write_bytes(bytes([number]) * BLOCK)
        os.utime(file, (OLD, OLD))
    return files


def load(fs_io, files: list[Path]) -> bytes:
    buffer = bytearray(BLOCK * len(files))
    offsets = [BLOCK * number for number in range(len(files))]
    fs_io.batch_load_block([str(file) for file in files], memoryview(buffer), offsets, BLOCK, False)
    return bytes(buffer)


def was_used(file: Path) -> bool:
    times = {file.stat().st_mtime > OLD, file.stat().st_atime > OLD}
    assert len(times) == 1
    return times.pop()


def test_a_loaded_block_counts_as_used_now_and_another_does_not(fs_io, blocks):
    before = time.time()
    content = load(fs_io, blocks[:2])
    assert content == b"\0" * BLOCK + b"\1" * BLOCK
    # File systems keep times of the kernel's last tick, which may be a little older.
    assert all(file.stat().st_mtime > before - 1 for file in blocks[:2])
    assert blocks[2].stat().st_mtime == OLD


def test_what_was_loaded_before_a_failing_block_counts_as_used(fs_io, blocks):
    blocks[1].unlink()
    with pytest.raises(FileNotFoundError) as error:
        load(fs_io, blocks)
    assert error.value.num_succeeded == 1  # type: ignore[attr-defined]
    assert [was_used(blocks[0]), was_used(blocks[2])] == [True, False]


def test_a_short_block_is_still_removed_and_reported(fs_io, blocks):
    blocks[1].write_bytes(b"short")
    with pytest.raises(OSError, match=r"Short read|Input/output error"):
        load(fs_io, blocks)
    assert not blocks[1].exists()


def test_a_block_that_is_pruned_while_it_is_loaded_is_no_error(fs_io, blocks, monkeypatch):
    def pruned(path: str, *_times: object) -> None:
        os.unlink(path)
        raise FileNotFoundError(path)

    monkeypatch.setattr(fs_io.os, "utime", pruned)
    assert load(fs_io, blocks[:1]) == b"\0" * BLOCK


def test_the_unpatched_module_leaves_no_trace_of_a_use(vllm_wheel, blocks, tmp_path, monkeypatch):
    """Why the patch is there; when this fails, vLLM does it itself and the patch can go."""
    with zipfile.ZipFile(vllm_wheel) as archive:
        source = archive.read(IO)
    monkeypatch.setitem(sys.modules, "vllm", types.ModuleType("vllm"))
    module = types.ModuleType("fs_io")
    exec(source, vars(module))
    load(module, blocks[:1])
    assert blocks[0].stat().st_mtime == OLD
