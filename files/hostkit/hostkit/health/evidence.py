"""What is kept of a failure: bounded texts, without secrets. What cannot be read says why."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from hostkit.generation import generations
from hostkit.host import gpus, paths, units
from hostkit.host.process import Failure, attempt

LINES = 4000
LIMIT_S = 10
BYTES = 1 << 20
# The header may name a scheme, "Basic" for instance, before what is secret.
_HEADERS = re.compile(r"(?i)(authorization:) *(?:\w+ +)?\S+|(bearer) +\S+")


def gather(invocation: str, generation: int | None) -> dict[str, str]:
    """File name to text."""
    release = generations.folder(generation or 0) / "release"
    sources: dict[str, Callable[[], str]] = {
        "journal.log": lambda: "\n".join(units.journal(invocation, LINES)),
        "kernel.log": lambda: "\n".join(kernel_lines()),
        "nvidia-smi.txt": gpus.smi,
        "memory.txt": lambda: Path("/proc/meminfo").read_text() + output("df", "-h"),
        "unit.txt": lambda: output("systemctl", "show", paths.UNIT),
        "manifest.json": lambda: (release / "manifest.json").read_text("utf-8"),
    }
    secrets = known_secrets()
    return {name: redacted(text(source)[-BYTES:], secrets) for name, source in sources.items()}


def kernel_lines() -> list[str]:
    """The last lines of the kernel's log: an out-of-memory kill, a GPU that fell off."""
    return output("dmesg", "--kernel", "--time-format=iso").splitlines()[-500:]


def known_secrets() -> list[str]:
    """The values that must never be written down, longest first."""
    found = []
    for file in paths.SECRETS:
        try:
            lines = file.read_text("utf-8", "replace").splitlines()
        except OSError:
            continue
        found += [line.rpartition('="')[2].strip().strip('"') for line in lines]
    return sorted({each for each in found if len(each) >= 8}, key=len, reverse=True)


def redacted(text: str, secrets: Sequence[str]) -> str:
    """The text without these values, and without anything that looks like a bearer token."""
    for secret in secrets:
        text = text.replace(secret, "[secret]")
    return _HEADERS.sub(lambda match: f"{match[1] or match[2]} [secret]", text)


def text(source: Callable[[], str]) -> str:
    """What a source says; why not, when it cannot."""
    try:
        return source()
    except (Failure, OSError, ValueError) as error:
        return f"not available: {error}\n"


def output(*command: str) -> str:
    """What a program prints, whatever its exit status. Failure after LIMIT_S."""
    ended = attempt(command, command[0], timeout_s=LIMIT_S)
    return ended.output or ended.errors
