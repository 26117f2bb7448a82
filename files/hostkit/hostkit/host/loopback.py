"""Asking servers of this host over HTTP: never through a proxy."""

import urllib.request

opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def netloc(address: str, port: int) -> str:
    """Address and port as a URL has them: one of IPv6 in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def reached_at(address: str, port: int) -> str:
    """Where what listens at this address is reached from its own host, as a URL has it."""
    return netloc(_ANY.get(address, address), port)
