"""How the host's downloads get out: through which proxy, and whose certificates they trust."""

from io import StringIO

from pyinfra.operations import files

from tasks.shared import network
from tasks.shared.operations import certificates
from tasks.shared.settings import settings

own = settings()

environment = network.environment(own)

files.directory(name="Create /etc/vllm", path="/etc/vllm", user="root", group="root", mode="755")
if environment:
    files.put(
        name="Use the proxy",
        src=StringIO(environment),
        dest=network.ENVIRONMENT,
        mode="644",
        create_remote_dir=False,
    )
else:
    files.file(name="Use no proxy", path=network.ENVIRONMENT, present=False)
# Before any package: apt may need them, and ca-certificates takes them when it is installed.
certificates.trusted(
    name="Trust this network's own certificates",
    path=network.CERTIFICATES,
    certificates=network.trusted(own),
)
