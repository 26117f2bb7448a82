"""What a host's store of certificates holds of ours."""

import shlex
from dataclasses import dataclass, field

from pyinfra.api import FactBase, StringCommand

from tasks.shared.trees import unpack

_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True)
class Trusted:
    """`pending`: the store's bundle does not have all of them yet, as after a deploy's end."""

    files: dict[str, str] = field(default_factory=dict)
    pending: bool = False


class TrustedCertificates(FactBase[Trusted]):
    """The files of a folder of local authorities, and whether the bundle has every line of them."""

    def command(self, path: str) -> StringCommand:
        folder = shlex.quote(path)
        return StringCommand(
            f"! test -d {folder} || {{ tar -C {folder} -czf - . | base64 -w 0; echo;",
            "! command -v update-ca-certificates >/dev/null ||",
            f"cat {folder}/*.crt | grep -vxFf {_BUNDLE} || true; }}",
        )

    @staticmethod
    def default() -> Trusted:
        return Trusted()

    def process(self, output: list[str]) -> Trusted:
        if not output:
            return Trusted()
        files = {name: str(text) for name, text in unpack(output[0]).items()}
        return Trusted(files, pending=any(line.strip() for line in output[1:]))
