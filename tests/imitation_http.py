"""A server on loopback that stands for another one while a test runs."""

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator
from typing import Any


class Quiet(http.server.BaseHTTPRequestHandler):
    """Says nothing on the tests' output."""

    def log_message(self, *_: Any) -> None:
        pass

    def sent(self) -> bytes:
        """The body of the request."""
        return self.rfile.read(int(self.headers["Content-Length"]))

    def reply(self, status: int, body: bytes = b"") -> None:
        """Answer with a status and a body of a length that is said."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


Handler = Callable[..., http.server.BaseHTTPRequestHandler]
Server = http.server.ThreadingHTTPServer


@contextlib.contextmanager
def serving(handler: Handler, port: int = 0) -> Iterator[Server]:
    """A server with this handler; its `server_port` is a free one unless one is named."""
    server = Server(("127.0.0.1", port), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
