"""Who is connected to a TCP port of this host, read from /proc/net; root sees processes, too."""

import ipaddress
import os
import re
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from hostkit.host import units

_ESTABLISHED = "01"
FRONT_DOOR = "vllm-front-door.service"
# They hold a connection open without anybody waiting for an answer: scraping, and our own programs.
# The front door does for its clients, who are counted at its own port.
_OWN_UNITS = re.compile(r"/(prometheus|vllm-)[^/]*\.service")


@dataclass(frozen=True)
class Client:
    """The other end of a connection; `pid` is 0 when it is not a process of this host."""

    address: str
    port: int
    pid: int = 0

    def __str__(self) -> str:
        if not self.pid:
            return self.address
        program = units.command_line(self.pid).split(" ")[0].rsplit("/", 1)[-1]
        return f"process {self.pid} ({program or '?'}) on this host"


def users(port: int) -> list[Client]:
    """Who is connected to the server at this port, also through the front door."""
    return [client for each in (port, *units.ports(FRONT_DOOR)) for client in clients(each)]


def clients(port: int) -> list[Client]:
    """The established connections to a port, but for our own and those of the monitoring."""
    rows = [row for table in ("tcp", "tcp6") for row in table_of(units.PROC / "net" / table)]
    by_local = {row.local: row for row in rows}
    found = []
    for row in rows:
        if row.local[1] != port or row.remote[1] == 0:
            continue
        client = by_local.get(row.remote)
        pid = units.owner(client.inode) if client and client.inode != "0" else 0
        if not (pid and is_own(pid)):
            found.append(Client(*row.remote, pid))
    return found


def is_own(pid: int) -> bool:
    """Is this process ours, or one that only watches?"""
    if pid == os.getpid():
        return True
    try:
        groups = (units.PROC / str(pid) / "cgroup").read_text()
    except OSError:
        return False
    return any(_OWN_UNITS.search(line) for line in groups.splitlines())


@dataclass(frozen=True)
class Row:
    """An established connection as the kernel lists it, seen from one of its ends."""

    local: tuple[str, int]
    remote: tuple[str, int]
    inode: str


def table_of(path: Path) -> list[Row]:
    """The established connections of /proc/net/tcp or tcp6."""
    return [
        Row(_endpoint(fields[1]), _endpoint(fields[2]), fields[9])
        for fields in units.socket_table(path)
        if fields[3] == _ESTABLISHED
    ]


def _endpoint(text: str) -> tuple[str, int]:
    """The kernel writes an address as 32-bit words in the machine's own byte order."""
    words, _, port = text.partition(":")
    raw = b"".join(
        struct.pack("=I", int(words[start : start + 8], 16)) for start in range(0, len(words), 8)
    )
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    address = ipaddress.ip_address(socket.inet_ntop(family, raw))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(port, 16)
