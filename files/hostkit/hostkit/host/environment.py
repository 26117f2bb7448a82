"""Environment files for systemd: what a unit is told and nobody else may read.

A value in a unit's own text, or in `--setenv`, is shown to every user by `systemctl show`, in
/run/systemd/transient and in the process list.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from hostkit.host.process import write_atomic


def write(file: Path, variables: Mapping[str, str]) -> str:
    """Write them, root's alone; the property that has a unit read them."""
    write_atomic(file, text(variables), 0o600)
    return f"--property=EnvironmentFile={file}"


def text(variables: Mapping[str, str]) -> str:
    """The file's text: systemd takes every value as it is, several lines too."""
    lines = (f'{name}="{_quoted(value)}"\n' for name, value in variables.items())
    return "".join(lines)


def _quoted(value: str) -> str:
    return re.sub(r'(["\\`$])', r"\\\1", value)
