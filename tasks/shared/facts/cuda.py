"""What apt and the CUDA toolkit say on a host."""

from pyinfra.api import FactBase, QuoteString, StringCommand

from tasks.shared.facts.yesorno import YesOrNo

CHECKED = "/opt/vllm/cuda-checked"
"""Where the identity of the toolkit that has compiled is kept."""

_IDENTITY = 'stat -L -c "%n %s %Y" "$1/bin/nvcc" /usr/bin/g++ 2>&1; echo "$2"'


class PackageListing(FactBase[list[str]]):
    """A line "<status> <name> <version>" for every package that dpkg knows."""

    def command(self) -> str:
        return "dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\\n'"

    @staticmethod
    def default() -> list[str]:
        return []

    def process(self, output: list[str]) -> list[str]:
        return output


class InstallSimulation(FactBase[list[str]]):
    """What `apt-get install` of these would do or say; lines that begin with E: are its refusal."""

    def command(self, arguments: list[str]) -> StringCommand:
        return StringCommand(
            "LC_ALL=C apt-get --simulate --no-install-recommends install --",
            *(QuoteString(argument) for argument in arguments),
            "2>&1 || true",
        )

    @staticmethod
    def default() -> list[str]:
        return []

    def process(self, output: list[str]) -> list[str]:
        return output


class CompiledBefore(YesOrNo):
    """Has this very toolkit, with this very compiler, compiled for the architecture before?"""

    def command(self, home: str, architecture: str) -> StringCommand:
        script = f"({_IDENTITY}) | cmp -s - {CHECKED} && echo yes || echo no"
        return StringCommand(
            "sh -c", QuoteString(script), "sh", QuoteString(home), QuoteString(architecture)
        )


def note_compiled(home: str, architecture: str) -> StringCommand:
    """The command that makes `CompiledBefore` true."""
    script = f"umask 022; ({_IDENTITY}) >{CHECKED}"
    return StringCommand(
        "sh -c", QuoteString(script), "sh", QuoteString(home), QuoteString(architecture)
    )
