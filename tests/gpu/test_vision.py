"""The vision tower in RAM: images are answered as with it on the GPU, and KV gets its room."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path

from tests.gpu import server
from tests.gpu.lives import decoding
from tests.gpu.record import record
from tests.gpu.server import Reply, Server
from tests.gpu.tiers import BF16_STEP, difference

SIZE = 448


def test_an_image_is_answered_with_the_tower_in_ram_and_the_pool_is_larger(
    rank_model: Path,
) -> None:
    pools: dict[str, int] = {}
    answers: dict[str, list[Reply]] = {}
    for where in ("cpu", "gpu"):
        with server.start(
            rank_model, name=f"vision-{where}", fingerprint="vision", gpus=1, vision_tower=where
        ) as running:
            moved = running.log_lines("Total CPU offloaded parameters")
            assert bool(moved) == (where == "cpu")
            pools[where] = pool_tokens(running)
            answers[where] = [describe(running, seed) for seed in (1, 2, 3)]
            record("vision", **{f"pool_tokens_{where}": pools[where]})
            record("vision", **{f"image_answer_s_{where}": answers[where][-1].total_s})
            if where == "cpu":
                decoding(running, "rank, the pool as it is")
    on_cpu, on_gpu = answers["cpu"], answers["gpu"]
    towers = max(difference(a, b) for a, b in zip(on_cpu, on_gpu, strict=True))
    images = min(difference(on_cpu[a], on_cpu[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    same = sum(a.token_ids == b.token_ids for a, b in zip(on_cpu, on_gpu, strict=True))
    record("vision", pool_tokens_gained=pools["cpu"] - pools["gpu"])
    record("vision", difference_of_towers=towers, difference_of_images=images, same_text_of_3=same)
    assert pools["cpu"] > pools["gpu"]
    assert towers <= BF16_STEP < images


def describe(running: Server, seed: int) -> Reply:
    """The answer to one image."""
    url = "data:image/png;base64," + base64.b64encode(picture(seed)).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What?"}]
    return running.chat(content)


def pool_tokens(running: Server) -> int:
    line = running.log_lines("GPU KV cache size: ")[-1]
    return int(line.split("GPU KV cache size: ")[1].split(" ")[0].replace(",", ""))


def picture(seed: int) -> bytes:
    """A PNG of coloured squares, another for each seed."""
    rows = bytearray()
    for y in range(SIZE):
        rows.append(0)
        for x in range(SIZE):
            value = (x // 56 * 37 + y // 56 * 91 + seed * 53) % 256
            rows += bytes((value, value * 3 % 256, value * 7 % 256))
    header = struct.pack(">IIBBBBB", SIZE, SIZE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(rows))), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body
