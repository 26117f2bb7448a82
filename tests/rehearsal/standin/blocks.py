"""An imitation of vLLM's fs tier, as `vllm/blocks.py` of the stand-in's wheel.

Laid out and written as vLLM does it (vllm/v1/kv_offload/tiering/fs/io.py): a temporary file that
becomes the block in one step, read again by name. Without a tier in the configuration it is none.
"""

import contextlib
import os
import random
import threading
from typing import Any

BLOCK = 4096
REMEMBERED = 2000


class Blocks:
    """Each use stores a block and asks for an earlier one: there and whole, or gone."""

    def __init__(self, config: dict[str, Any]) -> None:
        extra = config.get("kv-transfer-config", {}).get("kv_connector_extra_config", {})
        folders = [tier["root_dir"] for tier in extra.get("secondary_tiers", [])]
        self.base = f"{folders[0]}/standin_0a1b2c3d4e5f_r0" if folders else ""
        self.names: list[str] = []
        self.lock = threading.Lock()
        self.hits = self.misses = 0

    def use(self) -> None:
        """ValueError for a block that is not as it was stored, OSError for a disk that fails."""
        if not self.base:
            return
        name = os.urandom(32).hex()
        # Its folder may go before it is there: not stored then, which is no error of a request.
        with contextlib.suppress(FileNotFoundError):
            self._store(name)
        with self.lock:
            self.names = [*self.names[-REMEMBERED:], name]
            earlier = random.choice(self.names)
        found = self._load(earlier)
        if found is not None and found != content(earlier):
            raise ValueError(f"block {earlier} is not as it was stored")
        with self.lock:
            self.hits += found is not None
            self.misses += found is None

    def _path(self, name: str) -> str:
        return f"{self.base}/{name[:3]}/{name[3:5]}_g0/{name}.bin"

    def _store(self, name: str) -> None:
        path = self._path(name)
        temporary = f"{path}_{threading.get_ident()}.tmp"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(temporary, "xb") as file:
            file.write(content(name))
        os.replace(temporary, path)

    def _load(self, name: str) -> bytes | None:
        try:
            with open(self._path(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None


def content(name: str) -> bytes:
    """A block's bytes follow from its name, so that another one's are noticed."""
    return bytes.fromhex(name) * (BLOCK // 32)
