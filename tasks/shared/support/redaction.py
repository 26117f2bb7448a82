"""Takes out of a text what nobody else may read: pure, and the same name for the same thing.

Secrets, passwords and keys are cut out; hosts, people, folders at home and addresses get numbers
(host-1, user-1, address-1), so that a reader can still tell one from another. Lines stay lines.
"""

import re
from collections.abc import Callable, Iterable
from urllib.parse import quote

CUT = "[secret]"
_SHORTEST_SECRET = 8
_LONG_NAME = 5
# Words that a log is full of: a host or user of such a name cannot be told from them.
WORDS = {
    *("vllm", "root", "localhost", "nobody", "debian", "ubuntu", "linux", "systemd", "python"),
    *("hostkit", "server", "host", "user", "localhost.localdomain", "ip6-localhost"),
}
# A value in quotes may hold blanks and escaped quotes; none spans lines, whatever ends them.
_VALUE = r"""(?:"(?:\\\S|[^"\\\s]|[ \t])*"?|'(?:\\\S|[^'\\\s]|[ \t])*'?|[^\s,;"'}\])]+)"""
_PATTERNS = (
    # The header, in any notation.
    re.compile(
        r"""(?i)(?P<name>authorization)(?P<sign>[\\"']*[ \t]*[=:][\\"' \t]*)"""
        r"""(?P<value>(?:\w+[ \t]+)?[^\s"']+)"""
    ),
    re.compile(r"""(?i)\b(?P<name>bearer)(?P<sign>[ \t]+)(?P<value>[^\s"']+)"""),
    # NAME=value, "name": "value", --name value, of whatever is called a key or the like.
    re.compile(
        r"""(?i)(?P<name>token|key|password|passwd|secret|credentials?|webhook(?:_?url)?)"""
        r"""(?P<sign>[\\"']*[ \t]*[=:][ \t]*\\*|(?<=-key)[ \t]+|(?<=-token)[ \t]+)"""
        rf"""(?P<value>{_VALUE})"""
    ),
    re.compile(r"(?P<name>\w{1,20}://)(?P<sign>)(?P<value>[^/\s@]+)(?=@)"),
    # Who knows a webhook's path may post to it.
    re.compile(
        r"""(?i)(?P<name>https?://[^\s/"']*(?:hook|slack|discord|telegram|ntfy)[^\s/"']*/"""
        r"""|https?://[^\s/"']+/(?:[^\s/"']+/)*?(?:web)?hooks?/)(?P<sign>)(?P<value>[^\s"']+)"""
    ),
)
_HOME = re.compile(
    r"""(?P<before>(?<![\w.-])/home/|(?i:[/\\]+Users[/\\]+))(?P<name>[^\s/\\:"',;]+)"""
)
_ADDRESSES = (
    ("mac", re.compile(r"(?i)(?<![\w:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![\w:])")),
    # Not a version: "nvidia-cublas==13.1.0.3", "6.6.87.2-microsoft-standard-WSL2".
    (
        "address",
        re.compile(r"(?<![\w.-])(?<!==)(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d|-microsoft)"),
    ),
    ("address", re.compile(r"(?i)(?<![\w:.])(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?![\w:])")),
    (
        "address",
        re.compile(r"(?i)(?<![\w:.])(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6}(?![\w:])"),
    ),
)
_NOBODYS = re.compile(r"127\.|0\.0\.0\.0$|255\.")


class Redactor:
    """Hides these secrets, hosts and people, and whatever looks like one.

    `versions` are no addresses, whatever they look like. `kept` are the names that cannot be
    hidden, because they are words of any log.
    """

    def __init__(
        self,
        secrets: Iterable[str] = (),
        hosts: Iterable[str] = (),
        users: Iterable[str] = (),
        versions: Iterable[str] = (),
    ) -> None:
        known = {form for each in secrets if each for form in (each, quote(each, safe=""))}
        long = {each for each in known if len(each) >= _SHORTEST_SECRET and each not in CUT}
        self._secrets = sorted(long, key=len, reverse=True)
        self._numbers: dict[tuple[str, str], str] = {}
        self.kept: set[str] = set()
        self._versions = {*versions}
        names = [("host", part) for each in hosts for part in _parts(each)]
        names += [("user", each) for each in users]
        self._names = self._chosen(names)

    def __call__(self, text: str) -> str:
        """The text as anybody may read it."""
        text = self._without_secrets(text)
        for pattern in _PATTERNS:
            text = pattern.sub(self._cut, text)
        text = _HOME.sub(self._home, text)
        for pattern, label in self._names:
            text = pattern.sub(label, text)
        for kind, pattern in _ADDRESSES:
            text = pattern.sub(self._numbered(kind), text)
        # A name that was put in may have completed one.
        return self._without_secrets(text)

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            while secret in text:
                text = text.replace(secret, CUT)
        return text

    @staticmethod
    def _cut(match: re.Match[str]) -> str:
        value = match["value"]
        edge = value[0] if value[:1] in ("'", '"') else ""
        return f"{match['name']}{match['sign']}{edge}{CUT}{edge}"

    def _home(self, match: re.Match[str]) -> str:
        name = match["name"]
        return match[0] if name.lower() in WORDS else match["before"] + self._label("user", name)

    def _numbered(self, kind: str) -> Callable[[re.Match[str]], str]:
        def replaced(match: re.Match[str]) -> str:
            found = match[0]
            told = found in self._versions or _NOBODYS.match(found)
            return found if told else self._label(kind, found)

        return replaced

    def _label(self, kind: str, name: str) -> str:
        """What a thing is called in all texts of this redactor."""
        if re.fullmatch(rf"{kind}-\d+", name):
            return name
        key = (kind, name.lower())
        if key not in self._numbers:
            number = 1 + sum(each == kind for each, _ in self._numbers)
            self._numbers[key] = f"{kind}-{number}"
        return self._numbers[key]

    def _chosen(self, names: Iterable[tuple[str, str]]) -> list[tuple[re.Pattern[str], str]]:
        """A pattern for each name, longest first. Short names count as whole words only."""
        chosen: dict[str, tuple[re.Pattern[str], str]] = {}
        for kind, name in names:
            if not name or re.fullmatch(r"[\d.:]+", name):
                continue
            if name.lower() in WORDS:
                self.kept.add(name)
                continue
            edges = ("", "") if len(name) >= _LONG_NAME else ("(?<![A-Za-z0-9])", "(?![A-Za-z0-9])")
            pattern = re.compile(f"(?i){edges[0]}{re.escape(name)}{edges[1]}")
            chosen.setdefault(name.lower(), (pattern, self._label(kind, name)))
        return [chosen[name] for name in sorted(chosen, key=len, reverse=True)]


def _parts(name: str) -> list[str]:
    """A host's full name, its first part, and its domain."""
    first, _, domain = name.partition(".")
    return [name, first, *([domain] if "." in domain else [])]
