"""Running other programs, and saying in one line why one failed."""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What a resolver or installer prints around the one line that says what is wrong.
_MARKS = ("error:", "ERROR:", "\N{MULTIPLICATION SIGN}", "├─▶", "╰─▶", "Caused by:", "cause:")
# What pip only warns of, and then reports as a package that does not exist.
_CAUSES = (
    "No space left on device",
    "Name or service not known",
    "Temporary failure in name resolution",
    "Network is unreachable",
    "Connection refused",
    "CERTIFICATE_VERIFY_FAILED",
    "407 Proxy Authentication Required",
)


class Failure(Exception):
    """Ends a command with exit status 1 and its message, one line, on standard error."""


class NoEnd(Failure):
    """A program that did not end in its time, and was killed."""


@dataclass(frozen=True)
class Ended:
    """How a program ended, and all that it said."""

    status: int
    output: str
    errors: str

    @property
    def reason(self) -> str:
        """Why it failed, in one line of at most 400 characters."""
        return reason(self.errors or self.output, self.status)


def run(command: Sequence[str | Path], what: str, **options: Any) -> str:
    """Run a program to its end and return its standard output; options as `attempt` has them.

    Raises Failure "`what`: <its own reason>" when it cannot be started or exits non-zero.
    """
    ended = attempt(command, what, **options)
    if ended.status:
        raise Failure(f"{what}: {ended.reason}")
    return ended.output


def attempt(
    command: Sequence[str | Path],
    what: str,
    *,
    told: str = "",
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    keep_open: Sequence[int] = (),
    stderr: int = subprocess.PIPE,
    timeout_s: float | None = None,
    **other: Any,
) -> Ended:
    """Run a program to its end, whatever its exit status; STDOUT as `stderr` mixes both outputs.

    `told` is its standard input; `other` goes to subprocess.run. Raises Failure when it cannot be
    started, and NoEnd.
    """
    try:
        done = subprocess.run(
            [str(part) for part in command],
            input=told,
            cwd=cwd,
            env=None if env is None else dict(env),
            stdout=subprocess.PIPE,
            stderr=stderr,
            encoding="utf-8",
            errors="replace",
            pass_fds=keep_open,
            timeout=timeout_s,
            **other,
        )
    except subprocess.TimeoutExpired:
        raise NoEnd(f"{what}: no end within {timeout_s:g} s") from None
    except OSError as error:
        raise Failure(f"{what}: cannot run {command[0]}: {error.strerror}") from error
    return Ended(done.returncode, done.stdout, done.stderr or "")


def reason(output: str, returncode: int) -> str:
    """What a failed program says is wrong, as one line of at most 400 characters."""
    if returncode < 0:
        return f"killed by signal {-returncode}"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(_MARKS)]
    if not telling or any(line.startswith("Traceback ") for line in lines):
        telling = lines[-1:]
    telling += [cause for cause in _CAUSES if cause in output and cause not in "".join(telling)]
    # The cause stands last and says more than what was being done when it struck.
    return "; ".join(dict.fromkeys(telling))[-400:] or f"exit status {returncode}"


def write_atomic(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file as a whole; a crash leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read_json(path: Path) -> Any:
    """Parse a JSON file. Raises Failure naming the file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise Failure(f"{path}: not JSON: {error}") from error
