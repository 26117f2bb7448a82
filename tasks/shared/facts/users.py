"""One user of a host."""

from dataclasses import dataclass

from pyinfra.api import FactBase, QuoteString, StringCommand


@dataclass(frozen=True)
class User:
    """A user's home and shell, as the host's name service has them."""

    home: str
    shell: str


class UserFact(FactBase["User | None"]):
    """The user of that name; None when there is none."""

    def command(self, user: str) -> StringCommand:
        return StringCommand("getent passwd", QuoteString(user), "|| true")

    @staticmethod
    def default() -> User | None:
        return None

    def process(self, output: list[str]) -> User | None:
        *_, home, shell = output[0].split(":")
        return User(home, shell)
