"""Run on a host: a switch that stops dead before its n-th lasting step, for the test to cut power.

Arguments: n, then those of hostkit. Prints the step it stopped at, or "done" and the exit status.
"""

import functools
import os
import sys
import time

sys.path.insert(0, "/opt/vllm/hostkit")

from hostkit import cli
from hostkit.host import units

last, count = int(sys.argv[1]), 0


def counted(name, function):
    @functools.wraps(function)
    def wrapper(*arguments, **options):
        global count
        count += 1
        if count == last:
            print(f"before step {count}: {name} {arguments[-1]}", flush=True)
            while True:
                time.sleep(60)
        return function(*arguments, **options)

    return wrapper


os.replace = counted("rename to", os.replace)
os.unlink = counted("unlink", os.unlink)
os.fsync = counted("fsync", os.fsync)
units.systemctl = counted("systemctl", units.systemctl)
print("done", cli.main(sys.argv[2:]), flush=True)
