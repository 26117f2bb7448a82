"""A front door for those who serve others: TLS, and nothing but what the API key protects."""

from pyinfra import host

from tasks.shared import front_door, templates
from tasks.shared.facts.hostkit import HostStateFact
from tasks.shared.operations import apt
from tasks.shared.operations import front_door as operations
from tasks.shared.settings import settings

own = settings()

if own.front_door:
    apt.installed(
        name="Install nginx, whose own service stays off",
        packages=["nginx", "nginx-common"],
        masked=["nginx.service"],
    )
    certificate, key = front_door.files(own)
    if certificate == front_door.OWN_CERTIFICATE:
        apt.installed(name="Install what makes a certificate", packages=["openssl"])
        operations.self_signed(
            name="Make a self-signed certificate, which every client has to be given",
            names=own.front_door_names,
        )
    operations.opened(
        name=f"Open the front door at port {own.front_door_port}",
        config=templates.front_door_config(
            own, front_door.servers(own, host.get_fact(HostStateFact))
        ),
        unit=templates.front_door_unit(own),
        certificate=certificate,
        key=key,
    )
else:
    operations.closed(name="Have no front door")
