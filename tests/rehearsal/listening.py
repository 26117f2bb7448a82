"""Who has listened on a host while something was done there."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from . import deploys
from .host import state

LOOK = Path(__file__).parent / "scripts/listeners.py"


@contextlib.contextmanager
def listeners(host: str) -> Iterator[set[tuple[str, str, int]]]:
    """Yields a set that holds at the end each (program, address, port) that has listened."""
    deploys.on_host("rm -f /srv/stop; cat >/srv/listeners.py", host=host, stdin=LOOK.read_text())
    look = state.load(host).ssh_command("python3 -IB /srv/listeners.py /srv/stop")
    found: set[tuple[str, str, int]] = set()
    with subprocess.Popen(look, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as at:
        assert at.stdout
        try:
            at.stdout.readline()
            yield found
        finally:
            deploys.on_host("touch /srv/stop", host=host)
            rows = (line.split() for line in at.stdout)
            found |= {(program, address, int(port)) for program, address, port in rows}


def installed_as_it_comes(host: str, package: str) -> set[tuple[str, str, int]]:
    """Who listens while a package is installed whose unit nobody has masked.

    The unit has the package's name, and gets a network of its own: a port may be somebody else's.
    """
    apart = f"/run/systemd/system/{package}.service.d"
    run = f"export DEBIAN_FRONTEND=noninteractive; apt-get -qq purge '^{package}'; "
    deploys.on_host(f"{run} systemctl unmask {package}", host=host)
    private = f"printf '[Service]\\nPrivateNetwork=yes\\n' >{apart}/apart.conf"
    deploys.on_host(f"mkdir -p {apart}; {private}; systemctl daemon-reload", host=host)
    with listeners(host) as seen:
        install = f"apt-get -qq install --no-install-recommends {package} >/dev/null 2>&1"
        deploys.on_host(f"export DEBIAN_FRONTEND=noninteractive; {install}", host=host)
        deploys.wait_for(
            "its start", lambda: deploys.on_host(f"pgrep -x {package} || true", host=host)
        )
        deploys.on_host(f"sleep 1; systemctl stop {package}", host=host)
    deploys.on_host(f"rm -r {apart}; systemctl daemon-reload", host=host)
    return seen
