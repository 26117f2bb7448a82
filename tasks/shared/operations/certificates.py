"""Certificate authorities of the operator's own network."""

from collections.abc import Mapping

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation

from tasks.shared.facts.certificates import TrustedCertificates
from tasks.shared.operations.common import Commands, publish_folder

_UPDATE = "! command -v update-ca-certificates >/dev/null || update-ca-certificates >/dev/null"


@operation()
def trusted(path: str, certificates: Mapping[str, str]) -> Commands:
    """Ensure that the system trusts exactly these besides those that it brings.

    A system without the package ca-certificates takes them as soon as it is installed.

    + path: a folder of our own where the system's store looks for local authorities
    + certificates: file name to one certificate as PEM

    certificates.trusted(name="Trust", path="/usr/local/share/ca-certificates/x", certificates={})
    """
    present = host.get_fact(TrustedCertificates, path=path)
    if present.files == certificates and not present.pending:
        host.noop(f"{len(certificates)} authorities are trusted")
        return
    if certificates:
        yield publish_folder(path, dict(certificates))
        yield StringCommand(_UPDATE)
    else:
        # In one command: nothing would tell the next run that the store has still to be updated.
        yield StringCommand("rm -rf", QuoteString(path), "; ", _UPDATE)
