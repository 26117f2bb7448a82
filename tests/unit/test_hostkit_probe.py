"""Which compiled modules are loaded, which not, and what an operator is told to install."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hostkit.host.process import Failure
from hostkit.release import probe
from tests.unit import standin_vllm as standin

KERNELS = ["vllm/_C.abi3.so", "vllm/_C_AVX2.abi3.so", "vllm/_C_AVX512.abi3.so"]
AVX512 = {"avx2", "avx512f", "avx512bw", "avx512dq", "avx512vl"}
COMPILED = Path(probe.__file__).with_name("compiled.py")


def plan(recorded, accelerator="cpu", flags=frozenset()):
    return probe.plan(recorded, accelerator, (3, 11), frozenset(flags))


@pytest.mark.parametrize(
    ("flags", "loaded"),
    [
        ({"avx2"}, ["vllm/_C_AVX2.abi3.so"]),
        (AVX512, ["vllm/_C_AVX2.abi3.so", "vllm/_C_AVX512.abi3.so"]),
        (AVX512 | {"avx512_bf16"}, KERNELS),
    ],
)
def test_modules_for_instructions_that_the_processor_lacks_are_skipped_with_a_reason(flags, loaded):
    load, skipped = plan([*KERNELS, "vllm/fs_io_C.abi3.so", "vllm/a.py"], flags=flags)
    assert load == [*loaded, "vllm/fs_io_C.abi3.so"]
    assert sorted(skipped) == sorted({*KERNELS} - {*loaded})
    assert all(reason.startswith("the processor lacks avx512") for reason in skipped.values())


def test_a_processor_without_avx2_cannot_run_the_cpu_build():
    with pytest.raises(Failure, match="AVX2 is needed"):
        plan(KERNELS, flags={"sse4_2"})


def test_on_cuda_the_kernel_module_of_the_same_name_needs_no_avx():
    assert plan(["vllm/_C.abi3.so"], accelerator="cuda") == (["vllm/_C.abi3.so"], {})


def test_modules_built_for_another_python_are_skipped():
    folder = "vllm/third_party/deep_gemm"
    files = [f"{folder}/_C.cpython-3{minor}-x86_64-linux-gnu.so" for minor in (10, 11, 12)]
    load, skipped = plan(files, accelerator="cuda")
    assert load == [files[1]]
    assert skipped[files[2]] == "built for cpython-312-x86_64"


def test_a_missing_library_is_named_with_its_package():
    error = "libnuma.so.1: cannot open shared object file: No such file or directory"
    assert probe.explain("vllm/_C.abi3.so", error) == (
        "vllm/_C.abi3.so: libnuma.so.1: cannot open shared object file: No such file or directory;"
        " apt-get install libnuma1"
    )
    assert "needs the NVIDIA driver" in probe.explain("x", error.replace("numa", "cuda"))
    assert probe.explain("x", error.replace("numa", "odd")).endswith("No such file or directory")


def load(*paths: Path) -> list[str | None]:
    command = [sys.executable, "-IB", str(COMPILED), *map(str, paths)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    results = [json.loads(line) for line in output.splitlines()]
    assert [each["path"] for each in results] == [str(path) for path in paths]
    return [each["error"] for each in results]


def test_real_modules_load_and_broken_ones_do_not(tmp_path):
    good = tmp_path / "_good_C.abi3.so"
    good.write_bytes(standin.shared_object())
    lacking = tmp_path / "_lacking_C.abi3.so"
    lacking.write_bytes(standin.shared_object().replace(b"\0libc.so.6\0", b"\0libnone.6\0"))
    text = tmp_path / "_text_C.abi3.so"
    text.write_text("not a shared object")
    fine, missing, broken = load(good, lacking, text)
    assert fine is None
    assert missing is not None
    assert missing.startswith("libnone.6: cannot open shared object file")
    assert broken is not None


def test_a_module_that_kills_its_process_does_not_hide_the_others(tmp_path):
    # The first page is right, so it is mapped; running what is not there is fatal.
    whole = standin.shared_object()
    cut = tmp_path / "_cut_C.abi3.so"
    cut.write_bytes(whole[:4096])
    good = tmp_path / "_good_C.abi3.so"
    good.write_bytes(whole)
    first, second = load(cut, good)
    assert first is not None
    assert second is None


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A virtual environment in which the stand-in is installed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (found,) = (tmp_path / "venv/lib").glob("python3.*/site-packages")
    return found


def install(site: Path, **files: str) -> None:
    """Install the stand-in as hostkit's build does, with other texts for some of its files."""
    content = standin.vllm_files() | {
        path.replace("__", "/") + ".py": text.encode() for path, text in files.items()
    }
    for path, data in list(content.items()):
        if ".dist-info/" in path:
            name = path.replace("vllm_standin", "vllm").replace("1.2.3", "1.2.3+patched.0a")
            del content[path]
            text = data.decode().replace("vllm-standin", "vllm")
            content[name] = text.replace("Version: 1.2.3\n", "Version: 1.2.3+patched.0a\n").encode()
    standin.unpack(content, site)


def run(site: Path) -> probe.Probed:
    work = site.parents[2] / "work"
    work.mkdir(exist_ok=True)
    return probe.probe(site.parents[2], "cuda", work)


def test_an_installation_that_works_names_its_modules(site):
    install(site)
    assert run(site).loaded == ("vllm/_standin_C.abi3.so",)


def test_what_the_probe_imports_is_left_compiled(site):
    install(site)
    run(site)
    assert list((site / "vllm/__pycache__").glob("_version.*.pyc")) == []  # nothing imports it
    assert list((site / "vllm/__pycache__").glob("_custom_ops.*.pyc"))


def test_a_module_that_does_not_load_is_named_with_the_loaders_message(site):
    install(site)
    (site / "vllm/_standin_C.abi3.so").write_bytes(b"\x7fELF")
    with pytest.raises(Failure, match=r"^vllm/_standin_C\.abi3\.so: .*file too short"):
        run(site)


def test_vllms_own_warning_of_a_failed_import_is_an_error(site):
    warning = "import sys\nsys.stderr.write('WARNING Failed to import from vllm._C: "
    warning += 'ImportError("libnuma.so.1: cannot open shared object file")\\n\')\n'
    install(site, vllm___custom_ops=warning)
    with pytest.raises(Failure, match=r"^import vllm: .*vllm\._C.*; apt-get install libnuma1$"):
        run(site)


def test_an_import_that_fails_is_an_error_with_its_last_line(site):
    install(site, vllm__v1__engine__core="import no_such_package\n")
    with pytest.raises(Failure, match="No module named 'no_such_package'"):
        run(site)


def test_another_version_than_the_installed_one_is_an_error(site):
    install(site, vllm__entrypoints__cli__main="def main():\n    print('0.0.1')\n")
    with pytest.raises(Failure, match=r"says 0\.0\.1, expected 1\.2\.3\+patched\.0a"):
        run(site)
