"""Runs on a host as a user without any rights, and looks for secrets for as long as it may.

Told by JSON on standard input: {"canaries": {name: [forms]}, "stop": path}. What it
can read, anybody on the host can. Prints what it found and how often it looked, as JSON.
"""

import contextlib
import json
import os
import stat
import sys
import time

TOLD = json.load(sys.stdin)
FORMS = {name: [form.encode() for form in forms] for name, forms in TOLD["canaries"].items()}
FOLDERS = (
    *("/tmp", "/var/tmp", "/dev/shm", "/etc/vllm", "/run/vllm", "/run/systemd/transient"),
    *("/opt/vllm/generations", "/opt/vllm/inputs", "/var/lib/vllm", "/run/user", "/home"),
)
LARGEST = 1 << 20
found: set[tuple[str, str]] = set()
known: dict[str, tuple[int, ...]] = {}
looks = {"rounds": 0, "command lines": 0, "environments": 0, "files": 0}


def look(where, content):
    for name, forms in FORMS.items():
        if any(form in content for form in forms):
            found.add((name, where))


def read(path):
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read(LARGEST)


def processes():
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        for part, count in (("cmdline", "command lines"), ("environ", "environments")):
            content = read(f"/proc/{pid}/{part}")
            if content:
                looks[count] += 1
                look(part, content)


def files():
    for top in FOLDERS:
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):
                    seen = os.lstat(path)
                    state = (seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_mode)
                    if not stat.S_ISREG(seen.st_mode) or known.get(path) == state:
                        continue
                    content = read(path)
                    if content is not None:
                        known[path] = state
                        looks["files"] += 1
                        look(path, content)


print("looking", flush=True)
while True:
    last = os.path.exists(TOLD["stop"])
    processes()
    if looks["rounds"] % 10 == 0 or last:
        files()
    looks["rounds"] += 1
    if last:
        break
    time.sleep(0.002)  # what it looks for lasts longer, and others need the processor
print(json.dumps({"found": sorted(found), "looks": looks}))
