"""What eats memory on a rehearsal host, and how much of it there is."""

from __future__ import annotations

import shlex

from . import deploys

# Eats 64 MiB ten times a second, up to 3 GiB, and stays: a stop by the guard is the only end.
EATER = """\
#!/usr/bin/python3
import time
eaten = []
for _ in range(48):
    eaten.append(b"x" * (64 << 20))
    time.sleep(0.1)
time.sleep(600)
"""


def available_mib(host: str) -> int:
    line = deploys.on_host("grep ^MemAvailable /proc/meminfo", host=host)
    return int(line.split()[1]) // 1024


def put_eater(host: str, path: str) -> None:
    """Place the eater under the name that it is to have as a process."""
    deploys.on_host(
        f"mkdir -p $(dirname {path}); cat > {path}; chmod +x {path}", host=host, stdin=EATER
    )


def run_in_unit(unit: str, program: str) -> str:
    """A shell command that runs a program in the control group of a unit and prints its status."""
    script = (
        f"group=$(systemctl show --property=ControlGroup --value {unit}); "
        "for base in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do "
        "file=$base$group/cgroup.procs; if test -e $file; then echo $$ > $file; fi; done; "
        f"exec {program}"
    )
    return f"sh -c {shlex.quote(script)}; echo $?"
