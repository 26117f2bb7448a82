"""What the front door works with, and what lies there for it."""

import base64
from dataclasses import dataclass

from pyinfra.api import FactBase, QuoteString, StringCommand

from tasks.shared import front_door
from tasks.shared.facts.file_access import FileAccess

_GOOD_FOR_S = 30 * 86400


@dataclass(frozen=True)
class FrontDoor:
    """Texts are empty for files that are not there."""

    config: str = ""
    loaded: str = ""
    """The configuration that nginx works with."""
    certificate: str = ""
    """sha256 of the file that holds the certificate."""
    key: FileAccess | None = None
    """Who may read the file that holds its key; None when it is not there."""


class FrontDoorFact(FactBase[FrontDoor]):
    """The configuration, the one in force, the certificate and its key, in one round trip."""

    def command(self, certificate: str, key: str) -> StringCommand:
        return StringCommand(
            f"for file in {front_door.CONFIG} {front_door.LOADED}; do",
            "base64 -w 0 $file 2>/dev/null; echo; done;",
            "sha256sum", QuoteString(certificate), "2>/dev/null || echo;",
            "stat -L -c '%U %a'", QuoteString(key), "2>/dev/null || echo",
        )  # fmt: skip

    @staticmethod
    def default() -> FrontDoor:
        return FrontDoor()

    def process(self, output: list[str]) -> FrontDoor:
        config, loaded, certificate, key = (*output, "", "", "", "")[:4]
        return FrontDoor(
            _decoded(config),
            _decoded(loaded),
            certificate.split(" ")[0],
            FileAccess.read(key) if key.strip() else None,
        )


class OwnCertificateNames(FactBase[str]):
    """What the self-signed certificate was made for; empty when it has less than a month left."""

    def command(self) -> str:
        return (
            f"openssl x509 -in {front_door.OWN_CERTIFICATE} -noout -checkend {_GOOD_FOR_S} "
            f">/dev/null 2>&1 && test -s {front_door.OWN_KEY} && "
            f"cat {front_door.FOLDER}/tls/names || true"
        )

    @staticmethod
    def default() -> str:
        return ""

    def process(self, output: list[str]) -> str:
        return "".join(output)


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode("utf-8", errors="replace")
