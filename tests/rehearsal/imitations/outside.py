"""Another machine in the network, as a host sees it: a namespace with one wire to this machine."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from ..host import network, state

_CONNECT = """
import json, socket, sys
address, ports = json.load(sys.stdin)
def answers(port):
    try:
        socket.create_connection((address, port), timeout=5).close()
    except OSError:
        return False
    return True
print(json.dumps([port for port in ports if answers(port)]))
"""
_ASK = """
import http.client, json, ssl, sys
address, port, trusted, path, key = json.load(sys.stdin)
trust = ssl.create_default_context(cadata=trusted)
connection = http.client.HTTPSConnection(address, port, timeout=30, context=trust)
connection.request("GET", path, headers={"Authorization": "Bearer " + key} if key else {})
print(json.dumps(connection.getresponse().status))
"""


@dataclass(frozen=True)
class Outside:
    """`address` is where it finds this machine, and with it a host in this machine's network."""

    tag: str
    address: str

    def reaches(self, ports: Collection[int]) -> set[int]:
        """Those of these TCP ports that answer."""
        return {*self._run(_CONNECT, [self.address, sorted(ports)])}

    def ask(self, port: int, trusted: str, path: str, key: str = "") -> int:
        """The status that HTTPS answers with; `trusted` is the certificate to trust."""
        status: int = self._run(_ASK, [self.address, port, trusted, path, key])
        return status

    def _run(self, script: str, told: object) -> Any:
        done = subprocess.run(
            ["ip", "netns", "exec", network.namespace(self.tag), sys.executable, "-c", script],
            input=json.dumps(told),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@contextlib.contextmanager
def machine(host: str) -> Iterator[Outside]:
    """One for the tests of this host."""
    tag = state.tag_of(f"{host}-out"[:31])
    network.make(tag)
    try:
        yield Outside(tag, network.addresses(tag)[0])
    finally:
        network.remove(tag)
