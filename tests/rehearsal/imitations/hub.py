"""An imitation of Hugging Face's hub for one repository at one commit, on loopback."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from tests.imitation_http import Quiet, serving

REPOSITORY = "someone/smollm2"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(Quiet):
    """Serves what snapshot_download asks for: the list of files, and each of them in ranges."""

    protocol_version = "HTTP/1.1"
    folder: Path
    token: str
    damaged: ClassVar[set[str]] = set()
    """Files of which the last byte is another one than the repository states."""

    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        self.answer(with_body=True)

    def answer(self, *, with_body):
        if self.headers.get("Authorization") != f"Bearer {self.token}":
            self.send(401, b"{}", {"X-Error-Code": "GatedRepo"})
        elif self.path.startswith(f"/api/models/{REPOSITORY}/revision/{COMMIT}"):
            names = [{"rfilename": file.name} for file in sorted(self.folder.iterdir())]
            info = {"id": REPOSITORY, "sha": COMMIT, "siblings": names}
            self.send(200, json.dumps(info).encode(), {}, with_body=with_body)
        elif self.path.startswith(f"/api/models/{REPOSITORY}/tree/{COMMIT}"):
            files = [entry(file) for file in sorted(self.folder.iterdir())]
            self.send(200, json.dumps(files).encode(), {}, with_body=with_body)
        elif self.path.startswith(f"/{REPOSITORY}/resolve/{COMMIT}/"):
            self.send_file(self.folder / Path(self.path).name, with_body=with_body)
        else:
            self.send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})

    def send_file(self, path, *, with_body):
        content = path.read_bytes()
        headers = {
            "ETag": f'"{hashlib.sha256(content).hexdigest()}"',
            "X-Repo-Commit": COMMIT,
            "Accept-Ranges": "bytes",
        }
        if path.name in self.damaged:
            content = content[:-1] + bytes([content[-1] ^ 1])
        first, status = 0, 200
        wanted = self.headers.get("Range", "")
        if with_body and wanted.startswith("bytes="):
            first, status = int(wanted[6:].partition("-")[0]), 206
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
        self.send(status, content[first:], headers, with_body=with_body)

    def send(self, status, body, headers, *, with_body=True):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)


def entry(file: Path) -> dict[str, object]:
    """A file as the hub lists it: weights lie in LFS, all else in git."""
    content = file.read_bytes()
    oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    found: dict[str, object] = {"type": "file", "path": file.name, "size": len(content), "oid": oid}
    if file.suffix == ".safetensors":
        sha256 = hashlib.sha256(content).hexdigest()
        found["lfs"] = {"oid": sha256, "size": len(content), "pointerSize": 134}
    return found


@contextlib.contextmanager
def serve(folder: Path, token: str) -> Iterator[str]:
    """The address of a hub that has this folder, for those with the token."""
    Hub.folder, Hub.token = folder, token
    with serving(Hub) as server:
        yield f"http://127.0.0.1:{server.server_port}"
