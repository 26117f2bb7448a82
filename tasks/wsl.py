"""What WSL and Windows have to be told about this machine. Nothing here restarts WSL."""

from io import StringIO

from pyinfra import host, logger
from pyinfra.operations import files

from tasks.shared import inspection, templates
from tasks.shared.operations import wsl
from tasks.shared.settings import settings
from tasks.shared.wsl import windows

own, machine = settings(), inspection.machine()

if not own.wsl2:
    host.log("wsl2 = False: there is no Windows to be told anything", logger.info)
else:
    told = [
        wsl.values_set(
            name="Ask for systemd in /etc/wsl.conf",
            path="/etc/wsl.conf",
            values={"boot": {"systemd": "true"}},
            newline="\n",
        )
    ]
    user = windows.user(machine, own.windows_user)
    if user is None:
        host.log_styled(
            "whose .wslconfig counts is unknown, it is left alone: see windows_user",
            fg="yellow",
            log_func=logger.warning,
        )
    else:
        told.append(
            wsl.values_set(
                name=f"Tell WSL about its VM in {user}'s .wslconfig",
                path=f"{machine.windows}/Users/{user}/.wslconfig",
                values=windows.wslconfig(own),
                newline=None,
            )
        )
    files.directory(
        name="Create /etc/vllm", path="/etc/vllm", user="root", group="root", mode="755"
    )
    files.put(
        name=f"Write {windows.SCRIPT}",
        src=StringIO(templates.windows_script(own, windows.distribution(machine))),
        dest=windows.SCRIPT,
        mode="644",
        create_remote_dir=False,
    )
    if any(operation.will_change for operation in told):
        host.log_styled(windows.RESTART_NEEDED, fg="yellow", log_func=logger.warning)
    if not machine.has_systemd:
        wsl.stopped_until_restart(name="Stop here until WSL has been restarted")
