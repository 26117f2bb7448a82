"""What every other task needs on the host: packages, the service's user, hostkit."""

from pathlib import Path

from pyinfra.operations import files, server

from tasks.shared import serving, trees
from tasks.shared.operations import apt
from tasks.shared.operations import trees as tree_operations
from tasks.shared.settings import settings

settings()

apt.installed(
    name="Install what builds and the server need",
    packages=[
        "ca-certificates",
        "g++",
        "gcc",
        "git",
        "libgomp1",
        "libnuma1",
        "python3",
        "python3-dev",
        "python3-venv",
    ],
)

server.user(
    name="Create the service's user",
    user="vllm",
    home=serving.HOME,
    shell="/usr/sbin/nologin",
    system=True,
    ensure_home=False,
)

for path in ("/opt/vllm", "/opt/vllm/generations", "/opt/vllm/inputs", "/etc/vllm"):
    files.directory(name=f"Create {path}", path=path, user="root", group="root", mode="755")

tree_operations.program(
    name="Install hostkit",
    path="/opt/vllm/hostkit",
    tree=trees.read(Path("files/hostkit")),
)
