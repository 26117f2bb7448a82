"""What the rehearsal host borrows from the control machine so that it reaches the same registries.

The functions up to the line are pure; those below it read this machine.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
_PASSED_ON = (
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_INSECURE_HOST",
    "HF_ENDPOINT",
)
_PIP_KEYS = ("index-url", "extra-index-url", "find-links", "trusted-host", "default-timeout")
_DEBIAN_SUITES = {"oldoldstable", "oldstable", "stable", "testing", "unstable", "sid"} | {
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
}


@dataclass(frozen=True)
class AptEntry:
    """One archive, suite and its components, as an apt source names them."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str = ""


def parse_apt_list(text: str) -> list[AptEntry]:
    """The entries of a one-line-style file (`sources.list`)."""
    entries = []
    for line in text.splitlines():
        found = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*([^#]*)", line)
        if found:
            signed = re.search(r"signed-by=(\S+)", found[1] or "")
            entries.append(
                AptEntry(found[2], found[3], tuple(found[4].split()), signed[1] if signed else "")
            )
    return entries


def parse_apt_deb822(text: str) -> list[AptEntry]:
    """The entries of a deb822-style file (`*.sources`), disabled ones left out."""
    entries = []
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for stanza in re.split(r"\n\s*\n", "\n".join(lines)):
        fields: dict[str, str] = {}
        key = ""
        for line in stanza.splitlines():
            if line[:1].isspace():
                fields[key] = f"{fields.get(key, '')} {line.strip()}"
            elif ":" in line:
                key, _, value = line.partition(":")
                key = key.strip().lower()
                fields[key] = value.strip()
        if fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        if "deb" not in fields.get("types", "").split():
            continue
        entries += [
            AptEntry(
                uri,
                suite,
                tuple(fields.get("components", "").split()),
                fields.get("signed-by", ""),
            )
            for uri in fields.get("uris", "").split()
            for suite in fields.get("suites", "").split()
        ]
    return entries


def mirror_lines(
    entries: Iterable[AptEntry], suite: str, read: Callable[[str], str] = lambda _: ""
) -> list[str]:
    """apt lines for `suite` from the mirrors that these entries use for Debian's own archive.

    Another project's archive may use a suite of the same name, so an entry counts only when its
    path ends in /debian or /debian-security or when Debian's own keyring signs it. `read` resolves
    a `mirror+file:` list. An empty result means: no Debian mirror is configured here.
    """
    base = updates = security = ""
    for entry in entries:
        release = entry.suite.removesuffix("-updates").replace("/updates", "-security")
        release = release.removesuffix("-security").rstrip("/")
        uri = entry.uri.rstrip("/")
        if uri.startswith("mirror+file:"):
            listed = [
                w.split()[0] for w in read(uri.removeprefix("mirror+file:")).splitlines() if w
            ]
            uri = next((w for w in listed if not w.startswith("#")), "").rstrip("/")
        if (
            release not in _DEBIAN_SUITES
            or "main" not in entry.components
            or not uri
            or uri.startswith(("cdrom:", "mirror"))
            or not (
                uri.rsplit("/", 1)[-1] in ("debian", "debian-security")
                or "debian-archive" in entry.signed_by
            )
        ):
            continue
        if entry.suite.endswith("-security"):
            security = security or uri
        elif entry.suite.endswith("-updates"):
            updates = updates or uri
        else:
            base = base or uri
    if not base:
        return []
    lines = [f"deb {base} {suite} main"]
    if updates:
        lines.append(f"deb {updates} {suite}-updates main")
    if security:
        lines.append(f"deb {security} {suite}-security main")
    return lines


def apt_options(dump: str) -> list[str]:
    """The lines of `apt-config dump` that say how to reach archives: proxies and date checks."""
    wanted = re.compile(
        r"Acquire::(?:(?:http|https|ftp)::Proxy(?:::[^ ]+)?"
        r"|(?:http|https)::(?:Timeout|Verify-Peer|Verify-Host)"
        r"|Check-Valid-Until|Check-Date|Retries) ",
        re.IGNORECASE,
    )
    return [line for line in dump.splitlines() if wanted.match(line)]


def parse_pip_config(listing: str) -> dict[str, str]:
    """Effective values out of `pip config list`: the environment wins, then `install.`, `global.`.

    Constraint files are left out: they describe what the control machine wants installed.
    """
    found: dict[str, dict[str, str]] = {}
    for line in listing.splitlines():
        name, equals, value = line.partition("=")
        section, dot, key = name.rpartition(".")
        if equals and dot:
            found.setdefault(section, {})[key] = str(ast.literal_eval(value))
    merged = found.get("global", {}) | found.get("install", {}) | found.get(":env:", {})
    merged.setdefault("default-timeout", merged.get("timeout", ""))
    return {key: merged[key].strip() for key in _PIP_KEYS if merged.get(key, "").strip()}


def pip_conf(settings: Mapping[str, str]) -> str:
    """`/etc/pip.conf` for the host."""
    lines = ["[global]", f"cert = {CA_BUNDLE}", "disable-pip-version-check = 1"]
    for key, value in settings.items():
        words = value.split()
        lines.append(f"{key} = {value}" if len(words) == 1 else f"{key} =")
        lines += [f"    {word}" for word in words if len(words) > 1]
    return "\n".join(lines) + "\n"


def uv_toml(settings: Mapping[str, str]) -> str:
    """`/etc/uv/uv.toml` for the host: pip's meaning in uv's words, with the system's certificates.

    pip takes the best version of all indexes, uv by default the first index that has the name.
    """
    lines = ["system-certs = true"]
    if index := settings.get("index-url"):
        lines.append(f"index-url = {_toml(index)}")
    for key in ("extra-index-url", "find-links"):
        if words := settings.get(key, "").split():
            lines.append(f"{key} = [{', '.join(_toml(word) for word in words)}]")
    if "extra-index-url" in settings:
        lines.append('index-strategy = "unsafe-best-match"')
    return "\n".join(lines) + "\n"


def local_folders(settings: Mapping[str, str]) -> list[str]:
    """Folders of this machine that pip's settings point into; an index's files lie beside it."""
    folders = []
    for key in ("find-links", "index-url", "extra-index-url"):
        for word in settings.get(key, "").split():
            parts = urlsplit(word)
            if parts.scheme == "file":
                path = Path(unquote(parts.path))
            elif word.startswith("/"):
                path = Path(word)
            else:
                continue
            folder = path.parent if path.name == "simple" else path
            if str(folder) not in folders:
                folders.append(str(folder))
    return folders


def host_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables for the host: proxies and indexes as they are, certificates at the host's place."""
    kept = {}
    for name, value in environment.items():
        if value and (name in _PASSED_ON or name.lower() in _PASSED_ON):
            kept[name] = value
        elif value and name in _CA_VARIABLES:
            kept[name] = CA_BUNDLE
    return dict(sorted(kept.items()))


def environment_file(variables: Mapping[str, str]) -> str:
    """`/etc/environment`, which pam_env reads for SSH sessions."""
    return "".join(f'{name}="{value}"\n' for name, value in variables.items())


def manager_conf(variables: Mapping[str, str]) -> str:
    """A drop-in for `system.conf.d`: the same variables for every system service."""
    words = " ".join(
        shlex.quote(f"{name}={value}".replace("%", "%%")) for name, value in variables.items()
    )
    return f"[Manager]\nDefaultEnvironment={words}\n" if words else "[Manager]\n"


def certificates(bundle: str) -> list[str]:
    """The PEM certificates of a bundle, each once and without the text around it."""
    found = re.findall(
        r"-----BEGIN CERTIFICATE-----\n.+?\n-----END CERTIFICATE-----", bundle, re.DOTALL
    )
    return list(dict.fromkeys(found))


def _toml(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# --- below: reads of this machine --------------------------------------------------------------


def debian_mirrors(suite: str, etc: Path = Path("/etc")) -> list[str]:
    """apt lines for the mirror that this machine's own apt uses, or none where it is not Debian."""
    entries: list[AptEntry] = []
    parts = etc / "apt/sources.list.d"
    for path in (etc / "apt/sources.list", *sorted(parts.glob("*.list"))):
        if path.is_file():
            entries += parse_apt_list(path.read_text(errors="replace"))
    for path in sorted(parts.glob("*.sources")):
        entries += parse_apt_deb822(path.read_text(errors="replace"))
    return mirror_lines(entries, suite, lambda name: Path(name).read_text(errors="replace"))


def apt_settings() -> list[str]:
    """This machine's apt settings for proxies and date checks."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False)
    return apt_options(dump.stdout)


def pip_settings() -> dict[str, str]:
    """pip's effective settings here; with no pip at all, those of the environment."""
    for python in (sys.executable, shutil.which("python3") or ""):
        if python:
            listing = subprocess.run(
                [python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
            )
            if listing.returncode == 0:
                return parse_pip_config(listing.stdout)
    lines = (
        f":env:.{name[4:].lower().replace('_', '-')}={value!r}"
        for name, value in os.environ.items()
        if name.startswith("PIP_")
    )
    return parse_pip_config("\n".join(lines))


def find_links() -> tuple[str, ...]:
    """Folders where this machine's pip looks for packages besides the index."""
    return tuple(pip_settings().get("find-links", "").split())


def control_certificates() -> list[str]:
    """Every certificate that this machine trusts, from its bundle and those its tools are told."""
    paths = [CA_BUNDLE, *(os.environ.get(name, "") for name in _CA_VARIABLES)]
    texts = [
        Path(p).read_text(errors="replace") for p in dict.fromkeys(paths) if p and os.path.isfile(p)
    ]
    return certificates("\n".join(texts))
