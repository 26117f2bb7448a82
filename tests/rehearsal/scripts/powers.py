"""Runs as a service and says what it may do: JSON of attempt to outcome, "" for one that worked."""

import ctypes
import errno
import json
import os
import signal
import socket
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_USER_NAMESPACE = 0x10000000


def outcome(attempt, *arguments):
    """In a process of its own: a forbidden system call ends it."""
    pid = os.fork()
    if not pid:
        try:
            attempt(*arguments)
        except OSError as error:
            os._exit(error.errno or errno.EPERM)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return signal.Signals(-code).name if code < 0 else errno.errorcode.get(code, "")


def write(folder):
    file = os.path.join(folder, "written-by-the-service")
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
    os.unlink(file)


def read(file):
    os.close(os.open(file, os.O_RDONLY))


def set_uid_bit():
    file = os.path.expanduser("~/set-uid")
    handle = os.open(file, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.fchmod(handle, 0o4700)
    finally:
        os.close(handle)
        os.unlink(file)


def raw_socket():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()


def low_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 81))


def namespace():
    if LIBC.unshare(NEW_USER_NAMESPACE):
        raise OSError(ctypes.get_errno(), "unshare")


def sudo():
    if subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode:
        raise PermissionError(1, "sudo")


ATTEMPTS = {
    "become root": (os.setuid, 0),
    "sudo": (sudo,),
    "a raw socket": (raw_socket,),
    "a port below 1024": (low_port,),
    "a namespace": (namespace,),
    "a set-uid file": (set_uid_bit,),
}
with open(sys.argv[1]) as file:
    told = json.load(file)
found = {name: outcome(*attempt) for name, attempt in ATTEMPTS.items()}
found |= {f"write {path}": outcome(write, path) for path in told["write"]}
found |= {f"read {path}": outcome(read, path) for path in told["read"]}
print(json.dumps(found))
