"""How downloads get out: through a proxy, and with whose certificates.

Hosts are told by a file that hostkit and our apt commands read; what this machine fetches itself
goes through `Network.get`.
"""

import hashlib
import re
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter

from tasks.shared import texts

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

ENVIRONMENT = "/etc/vllm/network.env"
CERTIFICATES = "/usr/local/share/ca-certificates/vllm-deploy"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"

# Either spelling is some program's first choice, and what is left of the other would win.
_PROXY_NAMES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_EXCEPT_NAMES = ("no_proxy", "NO_PROXY")
_BUNDLE_NAMES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO")
_ALWAYS_DIRECT = ("localhost", "127.0.0.1", "::1")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def proxy_url(text: str) -> str:
    """A proxy's address; ValueError, without its text, when it holds a password."""
    if "@" in text:
        raise ValueError(
            "must hold no user name and no password, which process lists would show: let the proxy "
            "admit the host by its address, or name one on the host that logs in (cntlm, px)"
        )
    if not re.fullmatch(r"https?://([\w.-]+|\[[0-9a-fA-F:]+\])(:\d{1,5})?/?", text):
        raise ValueError("must be http://HOST:PORT or https://HOST:PORT")
    return text.rstrip("/")


def direct_name(text: str) -> str:
    """What no_proxy may name: it has to mean the same to all programs that read it."""
    if not re.fullmatch(r"\.?[\w:-][\w.:-]*", text):
        raise ValueError("must be a host name, a domain with a leading dot, or an address")
    return text


def certificates(file: str) -> dict[str, str]:
    """The certificates of a PEM file of this machine, each as a file that the hosts' store takes.

    Raises ValueError when it is not there, holds none, one that is damaged, or a private key.
    """
    try:
        text = texts.local_path(file).read_text(encoding="ascii")
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            "is not PEM: openssl x509 -inform der -in FILE -out FILE.pem makes it so"
        ) from error
    if "PRIVATE KEY-----" in text:
        raise ValueError("holds a private key: name the file with the certificates alone")
    found = list(dict.fromkeys(_CERTIFICATE.findall(text)))
    if not found:
        raise ValueError("holds no certificate (-----BEGIN CERTIFICATE-----)")
    _context("\n".join(found))
    return {f"{hashlib.sha256(each.encode()).hexdigest()[:16]}.crt": f"{each}\n" for each in found}


def certificate_file(file: str) -> str:
    """The same path, when it is such a file."""
    certificates(file)
    return file


def environment(settings: "Settings") -> str:
    """Content of the file with the variables of everything on a host that fetches; "" for none.

    It is read by a shell and by hostkit: every value is one word without quotes.
    """
    variables: dict[str, str] = {}
    if settings.proxy:
        variables |= dict.fromkeys(_PROXY_NAMES, settings.proxy)
        direct = ",".join([*_ALWAYS_DIRECT, *settings.no_proxy])
        variables |= dict.fromkeys(_EXCEPT_NAMES, direct)
    if settings.ca_certificates:
        variables |= dict.fromkeys(_BUNDLE_NAMES, BUNDLE)
    lines = [f"{name}={value}" for name, value in variables.items()]
    return "\n".join(["# Managed by the vLLM deploy", *lines, ""]) if lines else ""


def trusted(settings: "Settings") -> dict[str, str]:
    """The certificates that hosts have to trust besides those of their distribution."""
    return certificates(settings.ca_certificates) if settings.ca_certificates else {}


@dataclass(frozen=True)
class Network:
    """The way of this machine's own downloads; by default that of its environment."""

    proxy: str | None = None
    no_proxy: tuple[str, ...] = ()
    ca_certificates: str | None = None

    @classmethod
    def of(cls, settings: "Settings") -> "Network":
        return cls(settings.proxy, tuple(settings.no_proxy), settings.ca_certificates)

    def get(self, url: str, timeout: float) -> requests.Response:
        """requests.get; raises what that raises."""
        if self == AS_IN_ENVIRONMENT:
            return requests.get(url, timeout=timeout)
        with requests.Session() as session:
            if self.ca_certificates:
                session.mount("https://", _Trusting("".join(self._authorities())))
            return session.get(url, timeout=timeout, proxies=self._proxies(url))

    def _authorities(self) -> list[str]:
        return list(certificates(self.ca_certificates).values()) if self.ca_certificates else []

    def _proxies(self, url: str) -> dict[str, str]:
        direct = ",".join([*_ALWAYS_DIRECT, *self.no_proxy])
        if not self.proxy or requests.utils.should_bypass_proxies(url, no_proxy=direct):
            return {}
        return {"http": self.proxy, "https": self.proxy}


AS_IN_ENVIRONMENT = Network()


class _Trusting(HTTPAdapter):
    """Trusts some authorities besides those that requests does anyway."""

    def __init__(self, authorities: str) -> None:
        self.context = _context(authorities)
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, ssl_context=self.context, **options)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=self.context, **options)


def _context(authorities: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(cadata=authorities)
    except ssl.SSLError as error:
        raise ValueError(f"holds a certificate that cannot be read: {error.reason}") from error
    return context
