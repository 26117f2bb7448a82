"""hostkit does not depend on how root came to call it."""

import os
import stat
import subprocess
import sys

HOSTKIT = "files/hostkit"
LOOK = """
import os, sys
sys.path.insert(0, sys.argv[1])
from hostkit import cli
cli._as_root()
print(os.umask(0), os.environ["PATH"])
"""


def test_what_root_makes_can_be_read_by_the_service_whatever_roots_umask(tmp_path):
    """The folder of the lock is where a start writes, too."""
    done = subprocess.run(
        [sys.executable, "-IB", HOSTKIT, "settle", "--boot"],
        env=os.environ | {"HOSTKIT_ROOT": str(tmp_path)},
        umask=0o077,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert stat.S_IMODE((tmp_path / "run/vllm").stat().st_mode) == 0o755


def test_programs_for_root_are_found_with_a_users_path_and_with_none():
    for path in ("/usr/bin:/bin", ""):
        said = subprocess.run(
            [sys.executable, "-IBc", LOOK, HOSTKIT],
            env={"PATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert said == f"{0o022} /usr/bin:/bin:/usr/sbin:/sbin\n"
