"""Does an installed vLLM work on this machine: every compiled module loads, the imports are clean.

vLLM only warns when a compiled module cannot be loaded ("Failed to import from vllm._C"), and dies
later with an unrelated error.
"""

import csv
import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hostkit.host.process import Failure, run
from hostkit.release import installed

# The shared libraries outside of the release, and the Debian and Ubuntu package of each.
PACKAGES = {
    "libnuma.so.1": "libnuma1",
    "libgomp.so.1": "libgomp1",
    "libstdc++.so.6": "libstdc++6",
    "libgcc_s.so.1": "libgcc-s1",
    "libibverbs.so.1": "libibverbs1",
    "librdmacm.so.1": "librdmacm1",
    "libGL.so.1": "libgl1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libatomic.so.1": "libatomic1",
    "libtbb.so.12": "libtbb12",
    "libcuda.so.1": "the NVIDIA driver (under WSL2: the Windows driver)",
}

# vLLM's CPU build loads one of three, by what the processor can do (vllm/platforms/cpu.py).
CPU_KERNELS = {
    "vllm/_C.abi3.so": ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16"),
    "vllm/_C_AVX512.abi3.so": ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
    "vllm/_C_AVX2.abi3.so": ("avx2",),
}

_SERVE_IMPORTS = """
import vllm._custom_ops
import vllm.entrypoints.openai.api_server
import vllm.v1.engine.core
from vllm.entrypoints.cli.main import main
main()
"""

_MISSING_LIBRARY = re.compile(r"([\w.+-]+\.so[\d.]*): cannot open shared object file")
_WARNING = re.compile(r"Failed to import from vllm\S*.*")


@dataclass(frozen=True)
class Probed:
    """Paths of the compiled modules that load, and of those not tried with the reason."""

    loaded: tuple[str, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)


def plan(
    recorded: Iterable[str], accelerator: str, python: tuple[int, int], cpu_flags: frozenset[str]
) -> tuple[list[str], dict[str, str]]:
    """Split the compiled modules of a RECORD into those to load and those to skip, with reasons.

    Raises Failure when none of a CPU build's kernel modules fits the processor.
    """
    load, skip = [], {}
    modules = sorted(path for path in recorded if path.endswith(".so"))
    kernels = CPU_KERNELS if accelerator == "cpu" and {*CPU_KERNELS} & {*modules} else {}
    for path in modules:
        tag = path.rsplit("/", 1)[-1].split(".")[1]
        wanted = "cpython-{}{}-".format(*python)
        lacking = [flag for flag in kernels.get(path, ()) if flag not in cpu_flags]
        if tag.startswith("cpython-") and not tag.startswith(wanted):
            skip[path] = f"built for {tag.split('-linux')[0]}"
        elif lacking:
            skip[path] = f"the processor lacks {', '.join(lacking)}"
        else:
            load.append(path)
    if kernels and not {*kernels} & {*load}:
        raise Failure("no kernel module of vLLM's CPU build fits this processor: AVX2 is needed")
    return load, skip


def explain(what: str, error: str) -> str:
    """A loader's message with what to install, where that is known."""
    message = f"{what}: {' '.join(error.split())}"
    missing = _MISSING_LIBRARY.search(error)
    package = PACKAGES.get(missing[1]) if missing else None
    if package is None:
        return message
    return f"{message}; {'apt-get install ' if ' ' not in package else 'needs '}{package}"


def probe(venv: Path, accelerator: str, work: Path, *, kernels: bool = True) -> Probed:
    """Load every compiled module of a virtual environment's vLLM, then import the server.

    `work` takes what vLLM writes meanwhile. One that was built without kernels warns that it misses
    them, which is no error then. Raises Failure naming every module that does not load,
    the loader's message and the package to install.
    """
    python = venv / "bin/python"
    dist_info = installed.vllm_dist_info(venv)
    site_packages = dist_info.parent
    with (dist_info / "RECORD").open(encoding="utf-8", newline="") as file:
        recorded = [row[0] for row in csv.reader(file) if row]
    major, minor = site_packages.parent.name.removeprefix("python").split(".")
    load, skipped = plan(recorded, accelerator, (int(major), int(minor)), cpu_flags())
    env = environment(work)
    script = Path(__file__).with_name("compiled.py")
    paths = [site_packages / path for path in load]
    output = run([python, "-IB", script, *paths], "load the compiled modules", env=env)
    failures = _failures(output, {str(path): name for path, name in zip(paths, load, strict=True)})
    if failures:
        raise Failure(" | ".join(failures))
    check_import(
        venv, dist_info.name.removesuffix(".dist-info").partition("-")[2], env, kernels=kernels
    )
    return Probed(tuple(load), skipped)


def check_import(venv: Path, version: str, env: Mapping[str, str], *, kernels: bool) -> None:
    """Import what serves and ask it for its version; vLLM's warning of a failed import is an error.

    What is imported is left compiled to bytecode: the service's user cannot write it, and would
    compile 5,000 files at every start.
    """
    output = run(
        [venv / "bin/python", "-I", "-c", _SERVE_IMPORTS, "--version"],
        "import vLLM's server",
        env=env,
        stderr=subprocess.STDOUT,
    )
    warning = _WARNING.search(output)
    if warning and kernels:
        raise Failure(explain("import vllm", warning[0]))
    said = output.split()[-1:] or ["nothing"]
    if said[0] != version:
        raise Failure(f"vllm --version says {said[0]}, expected {version}")


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """What the processor can do, in the kernel's words."""
    for line in cpuinfo.read_text("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def environment(work: Path) -> dict[str, str]:
    """An environment in which vLLM reports to nobody and writes below `work` only."""
    kept = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ}
    return {
        **kept,
        "HOME": str(work),
        "XDG_CACHE_HOME": str(work),
        "XDG_CONFIG_HOME": str(work),
        "TMPDIR": str(work),
        "VLLM_CACHE_ROOT": str(work),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "LC_ALL": "C.UTF-8",
    }


def _failures(output: str, names: Mapping[str, str]) -> list[str]:
    """One message for each different error, with all the modules that it befell."""
    errors = dict.fromkeys(names, "was not loaded")
    for line in output.splitlines():
        if line.startswith('{"path"'):
            result = json.loads(line)
            errors[result["path"]] = result["error"]
    befallen: dict[str, list[str]] = {}
    for path, error in errors.items():
        if error:
            befallen.setdefault(error, []).append(names[path])
    return [explain(", ".join(modules), error) for error, modules in befallen.items()]
