"""vLLM's own tiers, without a GPU: run by a release's Python on a rehearsal host.

    fs_tier.py FOLDER SECONDS PRUNE…

`race` stores and loads for so long while the command PRUNE runs again and again. `use` stores,
loads the oldest block again, and prunes once; then the same with a vLLM that does not touch what
it loads. Prints a line of JSON. RAM holds a few chunks, so that nearly each load comes from
SSD; a chunk's bytes follow from its key, so that a wrong one is noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import uuid
from typing import Any

from vllm.v1.kv_offload.base import LookupResult, ReqContext, ScheduleEndContext, make_offload_key
from vllm.v1.kv_offload.config import (
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingGroupConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)
from vllm.v1.kv_offload.tiering.fs import io
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

CHUNK = 64 * 1024
IN_RAM = 8
KEYS = 300
PENDING = (LookupResult.RETRY, LookupResult.HIT_PENDING)


class Tiers:
    """A server's tiers as its scheduler uses them, one request for each key."""

    def __init__(self, folder: str) -> None:
        config = OffloadingConfig(
            groups=(OffloadingGroupConfig(16, ("layer",), 0),),
            worker_kv_bytes_per_block=CHUNK,
            enable_kv_cache_events=False,
            extra_config={
                "cpu_bytes_to_use": IN_RAM * CHUNK,
                "secondary_tiers": [{"type": "fs", "root_dir": folder, "n_read_threads": 2}],
            },
            engine_id=str(uuid.uuid4()),
            model=OffloadingModelConfig("a-model", "bfloat16"),
            cache=OffloadingCacheConfig(16, 1),
            parallel=OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, 0, True),
        )
        self.manager: Any = TieringOffloadingSpec(config).get_manager()
        self.view = self.manager.primary_tier.get_kv_memoryview().cast("B")
        self.counts = {"hits": 0, "misses": 0, "wrong": 0}

    def ask(self, number: int) -> bool:
        """Load a chunk, or store it where it is in no tier; was it there?"""
        key = make_offload_key(bytes.fromhex(name_of(number)), 0)
        request = ReqContext(req_id=str(uuid.uuid4()))
        self.manager.on_new_request(request)
        while (found := self.manager.lookup(key, request)) in PENDING:
            self._step()
        if found is LookupResult.HIT:
            (chunk,) = self.manager.prepare_load([key], request).chunk_ids
            self.counts["wrong"] += bytes(self.view[bytes_of(chunk)]) != content(number)
            self.manager.complete_load([key], request)
        else:
            self._store(key, number, request)
        self.manager.on_request_finished(request)
        self._step()
        self.counts["hits" if found is LookupResult.HIT else "misses"] += 1
        return found is LookupResult.HIT

    def _store(self, key: Any, number: int, request: ReqContext) -> None:
        while (prepared := self.manager.prepare_store([key], request)) is None:
            self._step()
        if prepared.keys_to_store:
            (chunk,) = prepared.store_spec.chunk_ids
            self.view[bytes_of(chunk)] = content(number)
            self.manager.complete_store([key], request)

    def _step(self) -> None:
        self.manager.on_schedule_end(ScheduleEndContext([], []))
        time.sleep(0.0005)

    def settle(self) -> None:
        """Until nothing is being written any more, and RAM holds nothing of what was."""
        for filler in range(10**6, 10**6 + 4 * IN_RAM):
            self.ask(filler)
        for tier in self.manager.secondary_tiers:
            tier.drain_jobs()


def name_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def bytes_of(chunk: int) -> slice:
    return slice(int(chunk) * CHUNK, (int(chunk) + 1) * CHUNK)


def content(number: int) -> bytes:
    return random.Random(number).randbytes(CHUNK)


def race(tiers: Tiers, seconds: float, prune: list[str]) -> dict[str, Any]:
    ended = threading.Event()
    said: list[str] = []

    def prune_on() -> None:
        while not ended.is_set():
            done = subprocess.run(prune, capture_output=True, text=True, check=False)
            said.append(done.stdout + done.stderr)

    pruner = threading.Thread(target=prune_on)
    pruner.start()
    deadline, chosen = time.monotonic() + seconds, random.Random(0)
    try:
        while time.monotonic() < deadline:
            tiers.ask(chosen.randrange(KEYS))
    finally:
        ended.set()
        pruner.join()
    return {**tiers.counts, "said": said}


def use(tiers: Tiers, folder: str, prune: list[str]) -> dict[str, Any]:
    """Which of ten chunks, the first the oldest, are found after the first was read and a prune."""
    for number in range(10):
        tiers.ask(number)
    tiers.settle()
    for number in range(10):
        (file,) = (p for p in blocks(folder) if name_of(number) in p)
        used = time.time() - (100 - number) * 3600
        os.utime(file, (used, used))
    assert tiers.ask(0)
    tiers.settle()
    done = subprocess.run(prune, capture_output=True, text=True, check=False)
    names = {os.path.basename(file) for file in blocks(folder)}
    found = [number for number in range(10) if f"{name_of(number)}.bin" in names]
    return {"found": found, "said": done.stdout + done.stderr}


def blocks(folder: str) -> list[str]:
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]


def main(folder: str, seconds: str, *prune: str) -> None:
    found = {}
    for what in ("race", "use", "use untouched"):
        if what == "use untouched":
            io._touch = lambda paths: None
        shutil.rmtree(folder, ignore_errors=True)
        tiers = Tiers(folder)
        if what == "race":
            found[what] = race(tiers, float(seconds), list(prune))
        else:
            found[what] = use(tiers, folder, list(prune))
        tiers.view.release()
        tiers.manager.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
