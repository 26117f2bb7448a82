"""pyinfra's own configuration: executed by every run, before the inventory is read."""

import sys
from pathlib import Path

root = Path(__file__).parent.resolve()
if not root.samefile("."):
    sys.exit(f"error: run pyinfra from the repository's own folder: cd {root}")

from tasks.shared.run import (  # noqa: E402 - can only be found from the repository's folder
    guards,
    mistakes,
    output,
    prefetch,
    screen,
    ssh,
    sudo,
)

guards.check_python()
guards.check_pyinfra()
mistakes.say_in_one_line()
guards.install()
screen.show_what_matters()
output.take_any_bytes()
ssh.use_nodelay()
ssh.connect_again()
ssh.name_full_disks()
ssh.check_host_keys()
ssh.check_key_files()
sudo.keep_password_off_command_lines()
prefetch.install()
