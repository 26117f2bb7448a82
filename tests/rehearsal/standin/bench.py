"""A stand-in for `vllm bench serve`: asks the server for real, and writes the same result.

STANDIN_BENCH chooses what it does wrong: "fails", or "leaves-a-child" that outlives it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

FAULT = os.environ.get("STANDIN_BENCH", "")


def ask(url: str, model: str, row: dict[str, Any]) -> tuple[float, str]:
    """Seconds until the answer, and what went wrong."""
    body = {"model": model, "prompt": row["prompt"], "max_tokens": row["output_tokens"]}
    request = urllib.request.Request(url, json.dumps(body | {"ignore_eos": True}).encode())
    request.add_header("Authorization", f"Bearer {os.environ['OPENAI_API_KEY']}")
    began = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
    except OSError as error:
        return 0.0, str(error)
    return time.monotonic() - began, ""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser()
    for name in ("backend", "endpoint", "base-url", "model", "tokenizer", "dataset-name"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("dataset-path", "custom-output-len", "request-rate", "temperature"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("percentile-metrics", "metric-percentiles", "result-dir", "result-filename"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("num-prompts", "max-concurrency"):
        parser.add_argument(f"--{name}", required=True, type=int)
    for name in ("disable-shuffle", "ignore-eos", "disable-tqdm", "save-result", "save-detailed"):
        parser.add_argument(f"--{name}", action="store_true", required=True)
    args = parser.parse_args(words)
    if FAULT == "fails":
        print("ValueError: the stand-in's benchmark was told to fail", file=sys.stderr)
        return 1
    if FAULT == "leaves-a-child":
        subprocess.Popen(["sleep", "300"], start_new_session=True)
    rows = [json.loads(line) for line in Path(args.dataset_path).read_text().splitlines()]
    rows = rows[: args.num_prompts]
    began = time.monotonic()
    with ThreadPoolExecutor(args.max_concurrency) as pool:
        url = args.base_url + args.endpoint
        replies = list(pool.map(lambda row: ask(url, args.model, row), rows))
    took = time.monotonic() - began
    tokens = sum(row["output_tokens"] for row in rows)
    prompt = sum(len(row["prompt"].split()) for row in rows)
    typical = statistics.median(seconds for seconds, _ in replies) * 1000
    result = {
        "completed": sum(not error for _, error in replies),
        "failed": sum(bool(error) for _, error in replies),
        "errors": [error for _, error in replies],
        "duration": took,
        "total_input_tokens": prompt,
        "total_output_tokens": tokens,
        "output_throughput": tokens / took,
        "total_token_throughput": (tokens + prompt) / took,
        "p50_ttft_ms": typical,
        "p95_ttft_ms": typical,
        "p50_tpot_ms": typical * len(rows) / tokens,
        "p95_itl_ms": typical * len(rows) / tokens,
    }
    Path(args.result_dir, args.result_filename).write_text(json.dumps(result))
    return 0
