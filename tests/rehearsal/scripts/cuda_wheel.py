"""vLLM's CUDA wheel through the overlay route, without a GPU; run by test_campaign_cuda.py.

usage: HOSTKIT_ROOT=FOLDER PYTHONPATH=files/hostkit python cuda_wheel.py INPUTS_DIR

As `hostkit build-release`, with its own steps, but for what needs the packages that vLLM depends
on (gigabytes of CUDA) or a driver: the check of the dependencies, the load of the compiled modules,
the JIT modules. INPUTS_DIR has a lock that names nothing.
"""

import os
import sys
from pathlib import Path

from hostkit.host import guard, paths
from hostkit.release import inputs, packages, probe, releases


def main(folder: Path) -> None:
    spec = inputs.read_spec(folder)
    where = paths.RELEASES / spec.name
    builder = releases._Builder(spec, where, os.open(os.devnull, 0), "campaign")
    tools = builder.tools
    with guard.watching("build") as watched:
        tools.make()
        made = builder._from_wheel()
        tools.install_wheel(builder.venv, made.wheel)
        for own in packages.folders(spec.folder):
            packed = packages.pack(own, tools.python, paths.WORK / "own", tools.keep_open)
            tools.install_wheel(builder.venv, packed)
        misrecorded = builder._settle()
        builder._make_cache()
        builder._write_manifest(made, probe.Probed(()), misrecorded, {}, watched)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
