"""A stand-in for vLLM's server: the process, the log, the metrics and the answers, and no model.

It becomes `vllm/standin.py` of a wheel. What it does wrong is chosen by environment variables, so
that each way in which a server can fail takes a second to try:

STANDIN_FAULT      a comma-separated list of
    exit           a traceback while the model is loading, exit status 1
    exit-late      the same after the port is open
    never-ready    goes on loading
    nonsense       answers, but not with as many tokens as were asked for
    wrong          answers of the right length with nothing right in them
    bad-restore    the same, but only to what comes back from RAM or SSD
    stuck          takes requests and never works on them; /health stays 200
    ignore-term    SIGTERM does nothing
STANDIN_START_S    seconds that loading takes (0.2)
STANDIN_TOKEN_S    seconds for each token of an answer (0)
STANDIN_KV_TOKENS  the size of the KV pool that the log reports (293000)
STANDIN_BACKEND    the attention backend that the log reports (TURBOQUANT)

What lies in `metrics` in its home is part of /metrics, too.
"""

import contextlib
import json
import mmap
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml
from vllm.blocks import Blocks
from vllm.standin_tiers import Tiers

FAULTS = set(filter(None, os.environ.get("STANDIN_FAULT", "").split(",")))
START_S = float(os.environ.get("STANDIN_START_S", "0.2"))
TOKEN_S = float(os.environ.get("STANDIN_TOKEN_S", "0"))
KV_TOKENS = int(os.environ.get("STANDIN_KV_TOKENS", "293000"))
BACKEND = os.environ.get("STANDIN_BACKEND", "TURBOQUANT")

KNOWN_FLAGS = {
    *("api-key", "async-scheduling", "attention-config", "cpu-offload-gb", "cpu-offload-params"),
    *("disable-custom-all-reduce", "distributed-executor-backend", "dtype"),
    *("enable-auto-tool-choice", "enable-prefix-caching", "enable-prompt-tokens-details"),
    *("enable-server-load-tracking", "enforce-eager", "gpu-memory-utilization", "host"),
    *("kv-cache-dtype", "kv-transfer-config", "limit-mm-per-prompt"),
    *("long-prefill-token-threshold", "mamba-ssm-cache-dtype", "max-model-len"),
    *("max-num-batched-tokens", "max-num-seqs", "model", "port", "quantization"),
    *("reasoning-parser", "scheduler-cls", "served-model-name", "shutdown-timeout"),
    *("speculative-config", "tensor-parallel-size", "tool-call-parser"),
}
"""The flags of vLLM 0.31.0 that a deploy may use; each version of the stand-in adds its own."""


def log(text: str, level: str = "INFO") -> None:
    """A line as vLLM writes it."""
    now = time.strftime("%m-%d %H:%M:%S")
    # As with vLLM's logging, a journal that is gone is no reason not to answer.
    with contextlib.suppress(BrokenPipeError):
        print(f"(APIServer pid={os.getpid()}) {level} {now} [standin.py:1] {text}", flush=True)


class Refused(Exception):
    """The configuration is not one that vLLM would start with."""


def parse(file: str, more_flags: Iterable[str] = ()) -> dict[str, Any]:
    """The content of a serve.yaml; Refused, in vLLM's words, for a flag that it does not know."""
    with open(file, encoding="utf-8") as stream:
        config: dict[str, Any] = yaml.safe_load(stream)
    unknown = [f"--{key}" for key in config if key not in {*KNOWN_FLAGS, *more_flags}]
    if unknown:
        raise Refused(f"unrecognized arguments: {' '.join(unknown)}")
    return config


class Engine:
    """The child process that vLLM calls EngineCore, and the shared memory that it leaves behind."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.files: list[str] = []
        offload = config.get("kv-transfer-config", {}).get("kv_connector_extra_config", {})
        if offload.get("cpu_bytes_to_use"):
            name = f"/dev/shm/vllm_offload_{uuid.uuid4()}.mmap"
            with open(name, "wb") as region:
                region.truncate(4096)
            self.files.append(name)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-m", "vllm.standin", "engine", *self.files],
            stdin=subprocess.PIPE,
        )

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        for name in self.files:
            os.unlink(name)


def engine(files: list[str]) -> None:
    """The child: maps the offload region and ends with its parent."""
    with open("/proc/self/comm", "w", encoding="utf-8") as comm:
        comm.write("VLLM::EngineCor")  # 15 characters, as the kernel keeps of vLLM's own
    mapped = []
    for name in files:
        with open(name, "r+b") as region:
            mapped.append(mmap.mmap(region.fileno(), 4096))
    sys.stdin.buffer.read()


class Requests:
    """Counts as vLLM's metrics have them, for at most `slots` requests at a time."""

    def __init__(self, slots: int, tiers: Tiers) -> None:
        self.lock = threading.Lock()
        self.slots = threading.Semaphore(slots)
        self.running = self.waiting = self.finished = self.prompt = self.generated = 0
        self.tiers = tiers

    def work(
        self,
        prompt_tokens: int,
        tokens: int,
        token_s: float = TOKEN_S,
        tell: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Take a slot and spend the time of an answer of that many tokens; `tell` of each."""
        with self.lock:
            self.waiting += 1
        with self.slots:
            with self.lock:
                self.waiting -= 1
                self.running += 1
                self.prompt += 0 if "stuck" in FAULTS else prompt_tokens
            try:
                while "stuck" in FAULTS:
                    time.sleep(1)
                for number in range(tokens):
                    time.sleep(token_s)
                    with self.lock:
                        self.generated += 1
                    tell(number)
            finally:
                with self.lock:
                    self.running -= 1
                    self.finished += 1

    def metrics(self, model: str) -> str:
        labels = f'{{engine="0",model_name="{model}"}}'
        values = {
            "num_requests_running": self.running,
            "num_requests_waiting": self.waiting,
            "prompt_tokens_total": self.prompt,
            "generation_tokens_total": self.generated,
            "iteration_tokens_total_count": self.generated,
            "request_success_total": self.finished,
            "kv_cache_usage_perc": 0.0,
        }
        values |= self.tiers.metrics()
        own = "".join(f"vllm:{name}{labels} {float(value)}\n" for name, value in values.items())
        more = Path(os.environ.get("HOME", "/nowhere"), "metrics")
        return own + (more.read_text(encoding="utf-8") if more.is_file() else "")


def answer_to(question: str) -> str:
    """Sums and France's capital, which is what tests ask; anything else comes back."""
    total = re.search(r"(\d+) *\+ *(\d+)", question)
    if total:
        return str(int(total[1]) + int(total[2]))
    return "The capital of France is Paris." if "France" in question else question[-200:]


class Handler(BaseHTTPRequestHandler):
    """vLLM's paths. Those below /v1 want the API key; all that begins with /metrics is metrics."""

    protocol_version = "HTTP/1.1"
    config: dict[str, Any]
    requests: Requests
    blocks: Any
    version: str

    def log_message(self, format: str, *args: Any) -> None:
        log(f'{self.client_address[0]} - "{self.requestline}"')

    def reply(self, status: int, body: Any, kind: str = "application/json") -> None:
        content = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def stream(self, prompt_tokens: int, tokens: int, token_s: float) -> None:
        """An answer in pieces, one a token, as they are made."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

        def piece(text: str) -> None:
            event = f"data: {text}\n\n"
            self.wfile.write(f"{len(event):x}\r\n{event}\r\n".encode())
            self.wfile.flush()

        def token(number: int) -> None:
            piece(json.dumps({"token": number, "choices": [{"token_ids": [number]}]}))

        self.requests.work(prompt_tokens, tokens, token_s, token)
        piece("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def allowed(self) -> bool:
        key = os.environ.get("VLLM_API_KEY")
        if not self.path.startswith("/v1") or self.headers["Authorization"] == f"Bearer {key}":
            return True
        self.reply(401, {"error": "Unauthorized"})
        return False

    def do_GET(self) -> None:
        model = self.config["served-model-name"]
        pages: dict[str, Any] = {
            "/health": "",
            "/version": {"version": self.version},
            "/v1/models": {"object": "list", "data": [{"id": model, "object": "model"}]},
            "/metrics": self.requests.metrics(model)
            + f"standin:block_hits {self.blocks.hits}\nstandin:block_misses {self.blocks.misses}\n",
        }
        if not self.allowed():
            return
        if self.path.startswith("/metrics"):
            self.reply(200, pages["/metrics"], "text/plain; version=0.0.4")
        elif self.path not in pages:
            self.reply(404, {"detail": "Not Found"})
        else:
            self.reply(200, pages[self.path])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}")
        if not self.allowed():
            return
        if self.path == "/tokenize":
            self.reply(200, {"count": len(body["messages"][-1]["content"].split())})
            return
        if self.path not in ("/v1/completions", "/v1/chat/completions", "/invocations"):
            self.reply(404, {"detail": "Not Found"})
            return
        chat = self.path.endswith("/chat/completions")
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        text = answer_to(str(prompt))
        words = len(text.split())
        tokens = body.get("max_tokens", 16) if body.get("ignore_eos") else words
        tokens = min(tokens, body.get("max_tokens", tokens))
        if body.get("stream"):
            self.stream(len(str(prompt).split()), tokens, body.get("token_s", TOKEN_S))
            return
        try:
            self.blocks.use()
        except (OSError, ValueError) as error:
            self.reply(500, {"error": f"{type(error).__name__}: {error}"})
            return
        self.requests.work(len(str(prompt).split()), tokens)
        restored = self.requests.tiers.take(f"{body.get('cache_salt')} {prompt}")
        if "wrong" in FAULTS or ("bad-restore" in FAULTS and restored):
            text = "as it were " * 8
        if "nonsense" in FAULTS:
            text, tokens = "!!!!!!!!", 0
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length", "logprobs": None}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        usage = {"prompt_tokens": len(str(prompt).split()), "completion_tokens": tokens}
        answer = {"id": "standin", "model": self.config["served-model-name"]}
        self.reply(200, {**answer, "choices": [choice], "usage": usage})


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def fail() -> None:
    log("EngineCore failed to start.", "ERROR")
    raise RuntimeError("the stand-in was told to fail")


def load(config: dict[str, Any], version: str) -> None:
    log(f"vLLM API server version {version}")
    log("Initializing a V1 LLM engine (stand-in)")
    log(f"Starting to load model {config['model']}...")
    time.sleep(START_S)
    if "exit" in FAULTS:
        fail()
    while "never-ready" in FAULTS:
        time.sleep(1)
    log("Loading weights took 0.10 seconds")
    log("Model loading took 1.0 GiB memory and 0.1 seconds")
    log(f"Using {BACKEND} attention backend out of potential backends: ['{BACKEND}'].")
    if "scheduler-cls" in config:
        name = config["scheduler-cls"].rpartition(".")[2]
        log(
            f"Shortest-first prefill: {name} deals {config['max-num-batched-tokens']} tokens a step"
        )
    log(f"GPU KV cache size: {KV_TOKENS:,} tokens")
    log("Graph capturing finished in 0 secs, took 0.00 GiB")
    log("init engine (profile, create kv cache, warmup model) took 0.10 s")


def serve(config: dict[str, Any], version: str) -> int:
    """Serve until SIGTERM, draining for `shutdown-timeout`; 0 also when the engine has died."""
    stopping = threading.Event()
    if "ignore-term" in FAULTS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = Engine(config)
    load(config, version)
    if "ignore-term" not in FAULTS:
        # Not before: SIGTERM ends a vLLM that is still loading at once.
        signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    Handler.config, Handler.version, Handler.blocks = config, version, Blocks(config)
    offload = config.get("kv-transfer-config", {}).get("kv_connector_extra_config", {})
    tiers = Tiers(KV_TOKENS, offload.get("cpu_bytes_to_use", 0), "secondary_tiers" in offload)
    Handler.requests = requests = Requests(config.get("max-num-seqs", 16), tiers)
    log(f"Starting vLLM server on http://{config['host']}:{config['port']}")
    server = Server((config["host"], config["port"]), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    log("Application startup complete.")
    if "exit-late" in FAULTS:
        fail()
    while not stopping.wait(0.1):
        if child.process.poll() is not None:
            log("EngineCore encountered a fatal error.", "ERROR")
            return 0
    deadline = time.monotonic() + config.get("shutdown-timeout", 0)
    while requests.running + requests.waiting and time.monotonic() < deadline:
        time.sleep(0.05)
    server.shutdown()
    child.stop()
    log("Application shutdown complete.")
    return 0


def main() -> int:
    """`vllm --version`, `vllm serve --config FILE`, `vllm bench serve …`."""
    import importlib.metadata

    version = importlib.metadata.version("vllm")
    if sys.argv[1:] == ["--version"]:
        print(version)
        return 0
    if sys.argv[1:3] == ["bench", "serve"]:
        from vllm import bench

        return int(bench.main(sys.argv[3:]))
    if sys.argv[1:3] != ["serve", "--config"] or len(sys.argv) != 4:
        print("vllm: error: the stand-in knows: vllm serve --config FILE", file=sys.stderr)
        return 2
    from vllm.flags import MORE_FLAGS

    try:
        config = parse(sys.argv[3], MORE_FLAGS)
    except Refused as refused:
        print(f"vllm serve: error: {refused}", file=sys.stderr)
        return 2
    return serve(config, version)


if __name__ == "__main__" and sys.argv[1:2] == ["engine"]:
    engine(sys.argv[2:])
