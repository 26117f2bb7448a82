"""How long a prune takes and how much memory, for a tier of so many files:
`python -m tests.rehearsal.measure.prune [FILES,FILES…] [FOLDER]`, with 10000,100000,1000000 and
/var/tmp unless said. Needs no rehearsal host; root, for a cold cache.

The files are laid out as vLLM does it and have a size but no content, so a million of them take
3 GB, nearly all of it for their 650,000 folders. Each tier is pruned by a tenth, then looked at
once more. For comparison find(1) looks at the same files.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ..host import state

FINGERPRINT = "0123456789ab"
BLOCK = 4096
SCRIPT = """
import resource, sys, time
sys.path.insert(0, "{}")
from hostkit.kv import prune
began = time.monotonic()
print(prune.prune(0.0)[0])
used = resource.getrusage(resource.RUSAGE_SELF)
seconds = time.monotonic() - began, used.ru_utime + used.ru_stime
print("%.1f s, %.1f s of a processor, at most %.0f MB" % (*seconds, used.ru_maxrss / 1024))
"""


def fill(folder: Path, files: int) -> None:
    """A tier of so many blocks, each last used at another time of the last 30 days."""
    chosen, now = random.Random(files), time.time()
    base = folder / FINGERPRINT / "model_0123456789ab_r0"
    for _ in range(files):
        name = chosen.randbytes(32).hex()
        below = base / name[:3] / f"{name[3:5]}_g0"
        below.mkdir(parents=True, exist_ok=True)
        file = below / f"{name}.bin"
        handle = os.open(file, os.O_CREAT | os.O_WRONLY)
        os.truncate(handle, BLOCK)
        os.close(handle)
        used = now - chosen.random() * 30 * 86400
        os.utime(file, (used, used))


def drop_caches(folder: Path) -> str:
    if subprocess.check_output(["stat", "-fc%T", folder], text=True).strip() == "tmpfs":
        return "in memory"
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError as error:
        return f"warm cache ({error.strerror}: run it as root)"
    return "cold cache"


def measure(root: Path, files: int) -> None:
    folder = root / "kv"
    folder.mkdir()
    (folder / ".vllm-kv-tier").touch()
    fill(folder, files)
    limits = {
        "folder": str(folder),
        "quota_bytes": int(files * BLOCK * 0.9625),
        "min_free_bytes": 0,
    }
    (root / "etc/vllm").mkdir(parents=True)
    (root / "etc/vllm/kv-tier.json").write_text(json.dumps(limits))
    for _ in range(2):
        print(f"{files} files, {drop_caches(root)}:", flush=True)
        subprocess.run(
            ["python3", "-IB", "-c", SCRIPT.format(HOSTKIT)],
            env={**os.environ, "HOSTKIT_ROOT": str(root)},
            check=True,
        )
    print(f"the same files, {drop_caches(root)}, find:", flush=True)
    began = time.monotonic()
    subprocess.run(["find", folder, "-type", "f", "-size", "+1G"], check=True)
    print(f"{time.monotonic() - began:.1f} s", flush=True)


HOSTKIT = state.REPOSITORY / "files/hostkit"


def main(counts: str = "10000,100000,1000000", below: str = "/var/tmp") -> None:
    for files in map(int, counts.split(",")):
        root = Path(tempfile.mkdtemp(prefix="measure-prune-", dir=below))
        try:
            measure(root, files)
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    main(*sys.argv[1:])
