"""What every other task needs on the host: packages, the service's user, hostkit."""

from pyinfra import local
from pyinfra.operations import files

from tasks.shared import templates, trees
from tasks.shared.engine import serving
from tasks.shared.facts.answers import HOSTKIT
from tasks.shared.generation.generations import GENERATIONS_DIR
from tasks.shared.operations import apt, units, users
from tasks.shared.operations import trees as tree_operations
from tasks.shared.release.releases import INPUTS_DIR
from tasks.shared.settings import settings

local.include("tasks/network.py")
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

users.service_user(name="Create the service's user", user="vllm", home=serving.HOME)

for path in ("/opt/vllm", GENERATIONS_DIR, INPUTS_DIR, "/opt/vllm/guard"):
    files.directory(name=f"Create {path}", path=path, user="root", group="root", mode="755")

tree_operations.program(name="Install hostkit", path=HOSTKIT, tree=trees.hostkit())

units.running(
    name="Run the memory guard",
    unit=templates.GUARD,
    text=templates.guard_unit(settings()),
)
