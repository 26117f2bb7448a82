"""Asking a host's Prometheus, on the host itself."""

from __future__ import annotations

import json
import shlex
import urllib.parse
from typing import Any

from . import deploys
from .host import state


def ask(host: str, path: str, **parameters: str) -> Any:
    """The data of an answer of its API: `ask(host, "query", query="up")`."""
    port = state.load(host).metrics_port
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    code = f"import urllib.request as u; print(u.urlopen({url!r}).read().decode())"
    return json.loads(deploys.on_host(f"python3 -IBc {shlex.quote(code)}", host=host))["data"]


def value(host: str, query: str) -> float | None:
    """The value of a query with one result; None while there is none."""
    found = ask(host, "query", query=query)["result"]
    return float(found[0]["value"][1]) if found else None


def wait_until_ready(host: str) -> None:
    """Wait until it answers."""
    port = state.load(host).metrics_port
    code = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/-/ready')"
    asked = f"python3 -IBc {shlex.quote(code)} 2>/dev/null && echo yes || true"
    deploys.wait_for("Prometheus", lambda: deploys.on_host(asked, host=host))
