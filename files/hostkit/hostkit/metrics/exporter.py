"""Serves hostkit's figures to Prometheus, on loopback, and tells it where vLLM answers.

What one collector cannot read costs its own figures and no others.
"""

import argparse
import json
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hostkit.generation import generations
from hostkit.host import paths
from hostkit.host.process import Failure
from hostkit.metrics import exposition, figures, gpufigures, hostfigures
from hostkit.metrics.exposition import Metric

ADDRESS = "127.0.0.1"
_pool = hostfigures.Pool()
_lock = threading.Lock()

COLLECTORS: dict[str, Callable[[], list[Metric]]] = {
    "service": hostfigures.service,
    "failures": hostfigures.failures_kept,
    "kv_pool": _pool.metrics,
    "guard": hostfigures.guard_actions,
    "machine": hostfigures.machine,
    "gpu": lambda: gpufigures.metrics() if hostfigures.gpus_needed() else [],
}


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("figures", help="the host's figures, as Prometheus reads them")
    parser.add_argument("--serve", type=int, metavar="PORT", help="on loopback (unit)")
    parser.set_defaults(run=_command)


def _command(args: argparse.Namespace) -> int:
    if args.serve is None:
        print(text(), end="")
        return 0
    with ThreadingHTTPServer((ADDRESS, args.serve), _Handler) as server:
        server.serve_forever()
    return 0


def text() -> str:
    """All figures: those that are asked for now, then those that were written down before."""
    found: list[Metric] = []
    success: dict[str, bool] = {}
    # One at a time: two scrapes need not make two nvidia-smi.
    with _lock:
        for name, collector in COLLECTORS.items():
            metrics = _collected(name, collector)
            found += metrics or []
            success[name] = metrics is not None
    found.append(hostfigures.successes(success))
    return exposition.render(found) + figures.written()


def targets() -> str:
    """Where vLLM's own figures are, in the JSON of Prometheus's HTTP service discovery.

    A switch may move the server to another port, long before anybody deploys again.
    """
    current = generations.linked(paths.CURRENT)
    if current is None:
        return "[]"
    return json.dumps([{"targets": [generations.reached_at(generations.note(current))]}])


PAGES: dict[str, tuple[str, Callable[[], str]]] = {
    "/metrics": (exposition.CONTENT_TYPE, text),
    "/targets": ("application/json", targets),
}
"""Type and text of each page; a page whose text cannot be made is answered with status 500."""


def _collected(name: str, collector: Callable[[], list[Metric]]) -> list[Metric] | None:
    try:
        return collector()
    # Whatever it is: the other figures are still wanted, and the log says what went wrong.
    except (Failure, OSError, ValueError, LookupError, TypeError) as error:
        print(f"hostkit: figures of {name}: {error}", file=sys.stderr, flush=True)
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        if self.path not in PAGES:
            self.send_error(404)
            return
        kind, page = PAGES[self.path]
        try:
            content = page().encode()
        except (OSError, ValueError) as error:
            self.send_error(500, str(error))
            return
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Not every scrape."""
