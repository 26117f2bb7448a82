"""Everything about a host that a dry run must leave alone, as one JSON object. Runs on the host.

Left out, because an idle host changes it by itself: the journal, and what Prometheus keeps. Not
hashed, only listed: /tmp, /run/systemd/system and /dev/shm. Times count where packages and settings
lie; elsewhere a log-in leaves traces. What is mounted is not the host's own: all rehearsal hosts
share the downloads.
"""

import hashlib
import json
import os
import stat
import subprocess
import sys

SKIPPED = {"/tmp", "/var/log/journal", "/var/lib/vllm/prometheus"}
LISTED = ["/tmp", "/run/systemd/system", "/dev/shm"]
TIMED = ("/etc", "/opt", "/usr", "/srv", "/home")


def entry(path):
    info = os.lstat(path)
    found = [oct(info.st_mode), info.st_uid, info.st_gid]
    if stat.S_ISLNK(info.st_mode):
        found.append(os.readlink(path))
    elif stat.S_ISREG(info.st_mode):
        found.append(info.st_size)
        with open(path, "rb") as file:
            found.append(hashlib.sha1(file.read()).hexdigest())
    if path.startswith(TIMED):
        found.append(info.st_mtime_ns)
    return found


def tree(top, skipped):
    found = {top: entry(top)}
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in skipped]
        for name in folders + files:
            path = os.path.join(folder, name)
            found[path] = entry(path)
    return found


def main():
    with open("/proc/self/mountinfo") as mounts:
        points = {line.split()[4] for line in mounts}
    snapshot = {"files": tree("/", SKIPPED | points)}
    for folder in LISTED:
        snapshot[folder] = sorted(os.listdir(folder)) if os.path.isdir(folder) else None
    units = ["systemctl", "list-unit-files", "--no-legend", "--no-pager"]
    snapshot["units"] = subprocess.run(units, capture_output=True, text=True).stdout.splitlines()
    json.dump(snapshot, sys.stdout)


main()
