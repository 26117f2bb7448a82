"""What nvidia-smi says of the GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass

from hostkit.host import paths
from hostkit.host.process import Failure, run

TIMEOUT_S = 20
"""A driver that hangs takes nvidia-smi with it."""

# By absolute path: under WSL2 only login shells have the first folder in their PATH.
_PROGRAMS = (paths.ROOT / "usr/lib/wsl/lib/nvidia-smi", paths.ROOT / "usr/bin/nvidia-smi")
_QUERY = ("index", "uuid", "memory.total", "memory.free")


class Unreadable(Failure):
    """What the GPUs have free is not known, which is not the same as free."""


@dataclass(frozen=True)
class Gpu:
    """One GPU; memory in MiB, None where nvidia-smi does not say."""

    index: str
    uuid: str
    total_mib: int | None
    free_mib: int | None


def read() -> list[Gpu]:
    """All GPUs in the order of their PCI bus. Raises Unreadable."""
    return parse(smi(f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"))


def parse(text: str) -> list[Gpu]:
    """Read nvidia-smi's CSV. Raises Unreadable for a line of another shape and for no line."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(_QUERY):
            raise Unreadable(f"cannot read what nvidia-smi says: {line[:100]}")
        total, free = (int(field) if field.isdecimal() else None for field in fields[2:])
        found.append(Gpu(fields[0], fields[1], total, free))
    if not found:
        raise Unreadable("nvidia-smi lists no GPU")
    return found


def smi(*arguments: str, timeout_s: float = TIMEOUT_S) -> str:
    """Run nvidia-smi and return what it prints. Raises Unreadable when it cannot say."""
    program = next((each for each in _PROGRAMS if each.exists()), None)
    if program is None:
        tried = " or ".join(map(str, _PROGRAMS))
        raise Unreadable(f"there is no {tried}: is the NVIDIA driver installed?")
    try:
        return run([program, *arguments], str(program), timeout_s=timeout_s)
    except Failure as failure:
        raise Unreadable(str(failure)) from None


def chosen(all_of_them: Sequence[Gpu], count: int, visible: str | None) -> list[Gpu]:
    """The GPUs that a server of `count` ranks uses, given CUDA_VISIBLE_DEVICES.

    Raises Failure when there are too few of them, or one that is named does not exist.
    """
    names = [name.strip() for name in (visible or "").split(",") if name.strip()]
    found = []
    for name in names:
        match = [g for g in all_of_them if g.index == name or g.uuid.startswith(name)]
        if len(match) != 1:
            raise Failure(f"CUDA_VISIBLE_DEVICES names GPU {name}: {len(match)} GPUs are it")
        found += match
    found = found if names else list(all_of_them)
    if len(found) < count:
        raise Failure(f"{len(found)} GPUs are there, {count} are needed")
    return found[:count]


def occupied(gpus: Sequence[Gpu], utilization: float) -> list[str]:
    """Why the server would not fit, a line for each GPU at fault.

    vLLM refuses to start, or builds a smaller KV pool, where less than `utilization` of the total
    is free.
    """
    found = []
    for gpu in gpus:
        if gpu.total_mib is None or gpu.free_mib is None:
            found.append(f"GPU {gpu.index}: nvidia-smi does not say what is free")
        elif gpu.free_mib < (needed := int(gpu.total_mib * utilization)):
            found.append(
                f"GPU {gpu.index}: {gpu.free_mib} MiB of {gpu.total_mib} MiB are free, "
                f"{needed} MiB are needed"
            )
    return found
