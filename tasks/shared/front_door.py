"""The front door: nginx with TLS in front of vLLM, for those who serve others. Pure functions.

vLLM asks for the API key only below /v1, /v2, /inference and /cohere (GUARDED_PREFIX in
vllm/entrypoints/serve/middleware/authenticate.py, the same in 0.30 to 0.32). Everything else, with
/metrics, /invocations, /tokenize and whatever a later version adds, is open to anybody who reaches
its port. So what is let through is a list of one, /v1/, and vLLM stays on loopback.
"""

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from hostkit.host import loopback
from tasks.shared import metrics, texts

if TYPE_CHECKING:
    from tasks.shared.facts.hostkit import HostState
    from tasks.shared.settings import Settings

UNIT = "vllm-front-door.service"
FOLDER = "/etc/vllm/front-door"
CONFIG = f"{FOLDER}/nginx.conf"
LOADED = "/run/vllm-front-door/nginx.conf"
"""A copy of the configuration that nginx works with; the unit makes it at a start and a reload."""
SELF_SIGNED = "self-signed"
OWN_CERTIFICATE = f"{FOLDER}/tls/certificate.pem"
OWN_KEY = f"{FOLDER}/tls/key.pem"
LOOPBACK = ("127.0.0.1", "::1", "localhost")

_RETRY_AFTER_S = 15
_NAME = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


def check(settings: "Settings") -> None:
    """ValueError when a front door that is on cannot be built from these settings."""
    s = settings
    if not s.front_door:
        return
    if s.listen_address not in LOOPBACK:
        raise ValueError(
            f"front_door is on and listen_address is {s.listen_address}: set 127.0.0.1, or clients "
            "go past it to what vLLM answers without a key"
        )
    taken = {s.port: "port", **metrics.ports(s)}
    if s.front_door_port in taken:
        other = taken[s.front_door_port]
        raise ValueError(f"front_door_port and {other} are both {s.front_door_port}: set one")
    if s.front_door_certificate is None:
        raise ValueError(
            "front_door needs front_door_certificate: a PEM file on the host, or "
            f"{SELF_SIGNED!r} for one that every client has to be given"
        )
    if s.front_door_certificate == SELF_SIGNED:
        if s.front_door_certificate_key is not None:
            raise ValueError(
                f"front_door_certificate = {SELF_SIGNED!r} makes its own key: set "
                "front_door_certificate_key = None"
            )
        if not s.front_door_names:
            raise ValueError(
                f"front_door_certificate = {SELF_SIGNED!r} needs front_door_names: the names and "
                "addresses by which clients call this host"
            )
    elif s.front_door_certificate_key is None:
        raise ValueError(
            "front_door_certificate needs front_door_certificate_key, a PEM file on the host"
        )


def url(settings: "Settings") -> str:
    """Where clients reach it."""
    name = (settings.front_door_names or [settings.front_door_address])[0]
    port = "" if settings.front_door_port == 443 else f":{settings.front_door_port}"
    return f"https://{texts.in_url(name)}{port}/v1"


def ports(settings: "Settings") -> dict[int, str]:
    """The port of the front door, and the setting that decides it; none without one."""
    return {settings.front_door_port: "front_door_port"} if settings.front_door else {}


def certificate(text: str) -> str:
    """A file on the host, or `SELF_SIGNED`; ValueError for anything else."""
    return text if text == SELF_SIGNED else texts.absolute_path(text)


def name(text: str) -> str:
    """A DNS name or an IP address; ValueError for anything else."""
    if not _is_address(text) and not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is neither a DNS name nor an IP address")
    return text


def alternative_names(names: list[str]) -> str:
    """The names as a certificate's subjectAltName."""
    return ",".join(f"{'IP' if _is_address(each) else 'DNS'}:{each}" for each in names)


def files(settings: "Settings") -> tuple[str, str]:
    """The certificate and its key on the host."""
    s = settings
    if s.front_door_certificate == SELF_SIGNED:
        return OWN_CERTIFICATE, OWN_KEY
    return str(s.front_door_certificate), str(s.front_door_certificate_key)


def reached_at(settings: "Settings") -> tuple[str, int]:
    """Address and port at which clients reach the server: the front door's where there is one."""
    if settings.front_door:
        return settings.front_door_address, settings.front_door_port
    return settings.listen_address, settings.port


def servers(settings: "Settings", present: "HostState") -> list[str]:
    """Where vLLM may answer, the settings' place first.

    A port that these settings change is that of the server that runs until it is restarted, and
    again after a rollback.
    """
    wanted = loopback.netloc(settings.listen_address, settings.port)
    others = {each.reached_at for each in present.in_use.values() if each.reached_at}
    return [wanted, *sorted(others - {wanted})]


def config_values(settings: "Settings", servers: list[str]) -> dict[str, Any]:
    """What templates/front-door.conf.j2 is filled with."""
    s = settings
    certificate_file, key_file = files(s)
    return {
        "listen": loopback.netloc(s.front_door_address, s.front_door_port),
        "both_families": s.front_door_address == "::",
        "certificate": certificate_file,
        "certificate_key": key_file,
        "max_body_mb": s.front_door_max_body_mb,
        "servers": servers,
        "retry_after_s": _RETRY_AFTER_S,
    }


def unit_values(settings: "Settings") -> dict[str, Any]:
    """What templates/vllm-front-door.service.j2 is filled with."""
    return {
        "nginx": nginx_command(CONFIG, "/run/vllm-front-door/nginx.pid"),
        "config": CONFIG,
        "loaded": LOADED,
        "drain_s": settings.shutdown_timeout_s,
    }


def nginx_command(config: str, pid_file: str) -> str:
    """nginx with a configuration of ours alone. A check of it opens the pid file, too."""
    return f"/usr/sbin/nginx -c {config} -g 'pid {pid_file};'"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
