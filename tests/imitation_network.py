"""An imitation of a network with one way out, its proxy, and with an authority of its own.

The proxy carries any connection. Names that end in `.invalid`, which nothing resolves, are servers
of a dictionary of files behind it, with certificates of the authority.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import select
import socket
import ssl
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.imitation_http import Quiet, Server, serving

NAME = "files.invalid"


@dataclass(frozen=True)
class Network:
    """`asked` has the host names that somebody reached through the proxy, in order."""

    proxy: str
    authority: Path
    asked: list[str] = field(default_factory=list)


@contextlib.contextmanager
def network(files: Mapping[str, bytes], folder: Path) -> Iterator[Network]:
    """The network, with these files (path to content) at https://files.invalid and over http."""
    certificate = certificates(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    asked: list[str] = []
    with _serve(_Origin, files=files) as plain, _serve(_Origin, files=files) as secure:
        secure.socket = context.wrap_socket(secure.socket, server_side=True)
        ports = {80: plain.server_port, 443: secure.server_port}
        with _serve(_Proxy, ports=ports, asked=asked) as proxy:
            address = f"http://127.0.0.1:{proxy.server_port}"
            yield Network(address, folder / "authority.pem", asked)


def _serve(handler: type[Quiet], **told: object) -> AbstractContextManager[Server]:
    return serving(type("Told", (handler,), told))


class _Origin(Quiet):
    files: Mapping[str, bytes]

    def do_GET(self) -> None:
        content = self.files.get(self.path)
        self.send_response(404 if content is None else 200)
        kind = "text/html" if self.path.endswith("/") else "application/octet-stream"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content or b"")

    do_HEAD = do_GET


class _Proxy(Quiet):
    """CONNECT to anything, and GET of plain http."""

    ports: Mapping[int, int]
    asked: list[str]
    timeout = 60

    def do_CONNECT(self) -> None:
        host, _, port = self.path.rpartition(":")
        try:
            there = self._connect(host, int(port))
        except OSError as error:
            self.send_error(502, str(error))
            return
        self.send_response(200)
        self.end_headers()
        with there:
            _carry(self.connection, there)
        self.close_connection = True

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        try:
            there = self._connect(url.hostname or "", url.port or 80)
        except OSError as error:
            self.send_error(502, str(error))
            return
        path = url._replace(scheme="", netloc="").geturl()
        lines = [f"{self.command} {path} HTTP/1.1", f"Host: {url.netloc}", "Connection: close"]
        kept = ("range", "if-range", "if-modified-since", "user-agent")
        lines += [f"{name}: {text}" for name, text in self.headers.items() if name.lower() in kept]
        with there:
            there.sendall("\r\n".join([*lines, "", ""]).encode())
            _carry(self.connection, there)
        self.close_connection = True

    do_HEAD = do_GET

    def _connect(self, host: str, port: int) -> socket.socket:
        self.asked.append(host)
        if host.endswith(".invalid"):
            return socket.create_connection(("127.0.0.1", self.ports[port]))
        return socket.create_connection((host, port), timeout=30)


def _carry(one: socket.socket, other: socket.socket) -> None:
    """Bytes both ways until a side has no more."""
    ways = {one: other, other: one}
    while True:
        readable = select.select([one, other], [], [], 60)[0]
        if not readable:
            return
        for source in readable:
            data = source.recv(65536)
            if not data:
                return
            ways[source].sendall(data)


def certificates(folder: Path) -> Path:
    """Write authority.pem; returns the file with the server's certificate and key."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in ("authority", NAME)]
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in names]

    def signed(number: int, extension: x509.ExtensionType) -> x509.Certificate:
        return (
            x509.CertificateBuilder()
            .subject_name(names[number])
            .issuer_name(names[0])
            .public_key(keys[number].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=number == 0, path_length=None), critical=True)
            .add_extension(extension, critical=False)
            .sign(keys[0], hashes.SHA256())
        )

    own = x509.SubjectKeyIdentifier.from_public_key(keys[0].public_key())
    alternative = x509.SubjectAlternativeName(
        [x509.DNSName(NAME), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    authority, server = (
        certificate.public_bytes(serialization.Encoding.PEM)
        for certificate in (signed(0, own), signed(1, alternative))
    )
    (folder / "authority.pem").write_bytes(authority)
    key = keys[1].private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "server.pem").write_bytes(server + key)
    return folder / "server.pem"
