"""What systemd really makes of an environment file, asked of systemd itself.

It is no shell file: an `export` line is dropped, a comment behind a value becomes part of it, an
open quote swallows the rest. Only systemd knows what its own parser hands over.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from hostkit.host import paths
from hostkit.host.process import Failure, run, write_atomic

_CHECKED = paths.RUN / "handover.json"


def check(file: Path, wanted: Mapping[str, str]) -> None:
    """Failure unless systemd reads these variables in the file.

    Needs root. Asks once for each content of the file.
    """
    key = hashlib.sha256(file.read_bytes() + json.dumps(dict(wanted)).encode()).hexdigest()
    try:
        if json.loads(_CHECKED.read_text()) == key:
            return
    except (OSError, ValueError):
        pass
    compare(read(file), wanted, file)
    write_atomic(_CHECKED, json.dumps(key) + "\n")


def read(file: Path) -> dict[str, str]:
    """The environment of a transient unit that has this EnvironmentFile."""
    command = ["systemd-run", "--quiet", "--collect", "--wait", "--pipe"]
    command += [f"--property=EnvironmentFile={file}", "--", "/usr/bin/env", "-0"]
    output = run(command, f"ask systemd to read {file}", timeout_s=30)
    return dict(entry.split("=", 1) for entry in output.split("\0") if "=" in entry)


def compare(found: Mapping[str, str], wanted: Mapping[str, str], file: Path) -> None:
    """Failure naming the first variable that does not arrive as it was meant."""
    for name, value in wanted.items():
        if name not in found:
            raise Failure(f"{file}: systemd hands over no {name}: deploy again")
        if found[name] != value:
            raise Failure(
                f"{file}: systemd hands over {name}={found[name]!r}, meant is {value!r}: another "
                "line of it, or a drop-in of the unit, gets in between; deploy again"
            )
