"""Facts about files that pyinfra's own do not answer in one round trip."""

import base64
import hashlib

from pyinfra.api import FactBase, QuoteString, StringCommand

from tasks.shared.facts.yesorno import YesOrNo
from tasks.shared.trees import Link, unpack


class TextTree(FactBase[dict[str, "str | Link"]]):
    """The files and links of a folder with their content; empty when there is no such folder."""

    def command(self, path: str) -> StringCommand:
        folder = QuoteString(f"{path}/")
        return StringCommand(
            "! test -d", folder, "|| tar -C", folder, "-czf - . | base64 -w 0 | cat - && echo"
        )

    @staticmethod
    def default() -> dict[str, str | Link]:
        return {}

    def process(self, output: list[str]) -> dict[str, str | Link]:
        packed = "".join(output).strip()
        return unpack(packed) if packed else {}


class SecretFileMatches(YesOrNo):
    """Whether a file is root's, 0600, and its content has this sha256. The content stays there."""

    def command(self, path: str, sha256: str) -> StringCommand:
        file = QuoteString(path)
        return StringCommand(
            'test "$(stat -c %U:%G:%a', file, '2>/dev/null)" = root:root:600 &&',
            "echo", QuoteString(f"{sha256}  {path}"), "| sha256sum --check --status 2>/dev/null",
            "&& echo yes || echo no",
        )  # fmt: skip


class FileBytes(FactBase["bytes | None"]):
    """A file's content whatever its encoding; None when it is not there."""

    def command(self, path: str) -> StringCommand:
        file = QuoteString(path)
        return StringCommand("! test -f", file, "|| { echo file; base64 -w 0 <", file, "; echo; }")

    @staticmethod
    def default() -> bytes | None:
        return None

    def process(self, output: list[str]) -> bytes | None:
        return base64.b64decode("".join(output[1:])) if output[:1] == ["file"] else None


class FolderIdentity(FactBase[str]):
    """Tells one state of a folder from another: names, sizes and times of the files in it.

    The same as hostkit's weights.identity(). Empty for a folder that is not there.
    """

    def command(self, path: str) -> StringCommand:
        folder = QuoteString(f"{path}/")
        return StringCommand(
            "! test -d", folder, "|| find -L", folder,
            r"-maxdepth 1 -type f ! -name '.*' -printf '%f %s %T@\n'",
        )  # fmt: skip

    @staticmethod
    def default() -> str:
        return ""

    def process(self, output: list[str]) -> str:
        # Sorted here: the host's `sort` follows its locale.
        return hashlib.sha256("\n".join(sorted(output)).encode()).hexdigest()


class FolderHashes(FactBase[dict[str, str]]):
    """File name to sha256 for the files directly in a folder; empty when it is not there."""

    def command(self, path: str) -> StringCommand:
        folder = QuoteString(path)
        return StringCommand(
            "! test -d", folder, "|| ( cd", folder,
            "&& find . -maxdepth 1 -type f -exec sha256sum {} + )",
        )  # fmt: skip

    @staticmethod
    def default() -> dict[str, str]:
        return {}

    def process(self, output: list[str]) -> dict[str, str]:
        pairs = (line.split("  ./", 1) for line in output if "  ./" in line)
        return {name: sha256 for sha256, name in pairs}
