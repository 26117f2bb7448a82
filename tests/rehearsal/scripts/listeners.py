"""Runs on a host and prints each address on which one of its processes listens, or listened.

usage: python3 listeners.py STOP: looks until the file STOP is there
"""

import os
import socket
import struct
import sys

LISTEN = "0A"


def addresses(pid):
    """Where a process listens, in its own network: (program, address, port)."""
    folder = f"/proc/{pid}"
    sockets = {os.readlink(f"{folder}/fd/{name}") for name in os.listdir(f"{folder}/fd")}
    with open(f"{folder}/comm") as comm:
        program = comm.read().strip()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with open(f"{folder}/net/{table}") as rows:
            for fields in map(str.split, list(rows)[1:]):
                if fields[3] == LISTEN and f"socket:[{fields[9]}]" in sockets:
                    words, port = fields[1].split(":")
                    packed = b"".join(
                        struct.pack("=I", int(words[at : at + 8], 16))
                        for at in range(0, len(words), 8)
                    )
                    yield program, socket.inet_ntop(family, packed), int(port, 16)


print("looking", flush=True)
seen = set()
while True:
    last = os.path.exists(sys.argv[1])
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                seen |= set(addresses(name))
            except OSError:
                continue  # it has ended meanwhile
    if last:
        break
for program, address, port in sorted(seen):
    print(program, address, port)
