"""An imitation of a package index for one folder of wheels: whole, slow, broken or error."""

import sys
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FOLDER = "/srv/standin"
PORT, HOW = int(sys.argv[1]), sys.argv[2]


class Handler(SimpleHTTPRequestHandler):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, directory=FOLDER, **kwargs)

    def do_GET(self) -> None:
        if HOW == "error":
            self.send_error(500)
        else:
            super().do_GET()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """The body: as it is, a kilobyte every 0.3 s, or half of it."""
        content = source.read()
        if HOW == "broken" and self.path.endswith(".whl"):
            content = content[: len(content) // 2]
        for start in range(0, len(content), 1024):
            outputfile.write(content[start : start + 1024])
            time.sleep(0.3 if HOW == "slow" else 0)


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
