"""A webhook on a rehearsal host: `webhook.py PORT FILE` writes what it is told into FILE."""

import http.server
import sys
from pathlib import Path


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Path(sys.argv[2]).write_bytes(body)
        self.send_response(204)
        self.end_headers()


if __name__ == "__main__":
    http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
