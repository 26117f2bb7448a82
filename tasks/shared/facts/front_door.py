"""What the front door works with, and what lies there for it."""

import base64
from dataclasses import dataclass

from pyinfra.api import FactBase, QuoteString, StringCommand

from tasks.shared import front_door

_GOOD_FOR_S = 30 * 86400


@dataclass(frozen=True)
class FrontDoor:
    """Texts are empty for files that are not there."""

    config: str = ""
    loaded: str = ""
    """The configuration that nginx works with."""
    certificate: str = ""
    """sha256 of the file that holds the certificate."""


class FrontDoorFact(FactBase[FrontDoor]):
    """The configuration, the one in force, and the certificate, in one round trip."""

    def command(self, certificate: str) -> StringCommand:
        return StringCommand(
            f"for file in {front_door.CONFIG} {front_door.LOADED}; do",
            "base64 -w 0 $file 2>/dev/null; echo; done; sha256sum", QuoteString(certificate),
            "2>/dev/null || true",
        )  # fmt: skip

    @staticmethod
    def default() -> FrontDoor:
        return FrontDoor()

    def process(self, output: list[str]) -> FrontDoor:
        config, loaded, *certificate = (*output, "", "")[:3]
        return FrontDoor(_decoded(config), _decoded(loaded), certificate[0].split(" ")[0])


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
