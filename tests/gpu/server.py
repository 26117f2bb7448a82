"""A vLLM server under test, started from rendered settings in a process group of its own.

How to write a case::

    from tests.gpu import model, profile, server

    def test_something(tmp_path):
        folder = model.write(tmp_path / "model", model.RANK)      # random weights, see model.py
        with server.start(folder, gpus=1, mtp_tokens=0) as running:  # any setting by its name
            reply = running.complete(server.document(1, 16000), tokens=16)
            reply.first_s, reply.total_s, reply.token_ids, reply.arrived_s
            reply.first_logprobs                                  # token id -> logprob
            running.metrics("spec_decode")                        # name -> value
            running.log_lines("attention block size")

`start` returns when this server, and no other on the same port, answers. Leaving the block ends the
whole process group and waits for it, also after a failure. `CUDA_VISIBLE_DEVICES` says which GPUs.
`running.together(prompts)` asks several at once. What was measured goes to `record` (record.py).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from hostkit.generation import startlog
from tests.gpu import model, profile

REQUEST_TIMEOUT_S = 400
_INFORMATION = re.compile(r'(engine="\d+"|model_name="[^"]*"),?')


class StartFailed(Exception):
    """The server ended or did not answer in time; the text ends with the end of its log."""


@dataclass
class Reply:
    """One streamed completion; times in seconds since it was asked."""

    first_s: float = 0.0
    total_s: float = 0.0
    token_ids: list[int] = field(default_factory=list)
    arrived_s: list[float] = field(default_factory=list)
    """When each token came, by the monotonic clock; with MTP two may come at once."""
    first_logprobs: dict[int, float] = field(default_factory=dict)


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    settings: Any
    log: Path
    began: float
    ready_s: float = 0.0

    @property
    def port(self) -> int:
        return int(self.settings.port)

    def complete(
        self,
        prompt: Sequence[int],
        tokens: int = 16,
        *,
        salt: str | None = None,
        logprobs: int = 0,
        delay_s: float = 0.0,
    ) -> Reply:
        """A greedy completion of exactly so many tokens.

        `salt`: a prompt asked with another one finds nothing of it in any cache.
        """
        body: dict[str, Any] = {
            "model": self.settings.served_model_name,
            "prompt": list(prompt),
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "return_token_ids": True,
        }
        if salt:
            body["cache_salt"] = salt
        if logprobs:
            body |= {"logprobs": logprobs, "return_tokens_as_token_ids": True}
        time.sleep(delay_s)
        reply, asked = Reply(), time.monotonic()
        for event in self._stream("/v1/completions", body):
            now = time.monotonic()
            choice = (event.get("choices") or [{}])[0]
            ids = choice.get("token_ids") or []
            if not ids:
                continue
            if not reply.token_ids:
                reply.first_s = now - asked
                reply.first_logprobs = _top(choice)
            reply.token_ids += ids
            reply.arrived_s += [now] * len(ids)
        if len(reply.token_ids) != tokens:
            raise AssertionError(f"{len(reply.token_ids)} tokens came instead of {tokens}")
        reply.total_s = reply.arrived_s[-1] - asked
        return reply

    def together(
        self, prompts: Sequence[Sequence[int]], tokens: int = 16, **kw: Any
    ) -> list[Reply]:
        """All prompts at the same time, replies in their order."""
        with ThreadPoolExecutor(len(prompts)) as pool:
            return list(pool.map(lambda prompt: self.complete(prompt, tokens, **kw), prompts))

    def chat(self, content: Any, tokens: int = 16, logprobs: int = 20) -> Reply:
        """The answer to one chat message; `content` as in OpenAI's API, images included."""
        body = {
            "model": self.settings.served_model_name,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
            "logprobs": True,
            "top_logprobs": logprobs,
            "return_tokens_as_token_ids": True,
        }
        asked = time.monotonic()
        choice = json.loads(self.request("/v1/chat/completions", body))["choices"][0]
        top = choice["logprobs"]["content"][0]["top_logprobs"]
        return Reply(
            total_s=time.monotonic() - asked,
            token_ids=choice["token_ids"],
            first_logprobs={_token_id(each["token"]): each["logprob"] for each in top},
        )

    def request(self, path: str, body: Any = None, timeout_s: float = REQUEST_TIMEOUT_S) -> str:
        with self._open(path, body, timeout_s) as response:
            return str(response.read().decode())

    def metrics(self, pattern: str) -> dict[str, float]:
        """Metrics above zero whose name or labels match."""
        found = {}
        for line in self.request("/metrics", timeout_s=10).splitlines():
            if re.match(r"vllm:\w+(?<!_created)[{ ]", line) and re.search(pattern, line):
                name, value = line.rsplit(" ", 1)
                if float(value) and "_bucket{" not in name:
                    found[_INFORMATION.sub("", name).replace("{}", "")] = float(value)
        return found

    def total(self, name: str) -> float:
        """The sum of one metric over all its labels; 0 when there is none."""
        return sum(self.metrics(rf"^vllm:{name}[{{ ]").values())

    def log_lines(self, pattern: str) -> list[str]:
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return [line for line in text.splitlines() if re.search(pattern, line)]

    def processes(self) -> dict[int, str]:
        """Every live process of the group: id to name as vLLM titles it."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError, IndexError):
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    if int(fields[3]) == self.process.pid and fields[0] != "Z":
                        command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                        found[int(entry.name)] = command.strip()
        return found

    def regions(self) -> set[Path]:
        """The KV offload regions in /dev/shm that this server has mapped."""
        found: set[str] = set()
        for pid in self.processes():
            with contextlib.suppress(OSError):
                maps = Path(f"/proc/{pid}/maps").read_text()
                found |= set(re.findall(r"/dev/shm/vllm_offload_[\w-]+\.mmap", maps))
        return {Path(each) for each in found}

    def kill(self, role: str) -> int:
        """SIGKILL to the first process whose title matches, e.g. EngineCore, Worker_TP1."""
        chosen = [pid for pid, name in self.processes().items() if re.search(role, name)]
        if not chosen:
            raise AssertionError(f"no {role} among {self.processes()}")
        os.kill(chosen[0], signal.SIGKILL)
        return chosen[0]

    def wait(self, timeout_s: float) -> int | None:
        """The main process's exit status, negative for a signal; None when it is still there."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(timeout_s)
        return None

    def stop(self, timeout_s: float = 90) -> int | None:
        """SIGTERM to the main process alone, as systemd does; its exit status."""
        self.process.terminate()
        return self.wait(timeout_s)

    def end(self) -> None:
        """End whatever is left of the group."""
        for _ in range(50):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            for pid in self.processes():  # a process group of its own, in the same session
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()
            if not self.processes():
                return
            time.sleep(0.1)
        raise AssertionError(f"processes outlive SIGKILL: {self.processes()}")

    def owns_port(self) -> bool:
        """Whether the listening socket is one of this server's: another's answer counts nothing."""
        inodes = {
            fields[9]
            for name in ("tcp", "tcp6")
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
            if (fields := line.split())[3] == "0A"
            and int(fields[1].rpartition(":")[2], 16) == self.port
        }
        for pid in self.processes():
            with contextlib.suppress(OSError):
                for link in Path(f"/proc/{pid}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        if os.readlink(link).removeprefix("socket:[").rstrip("]") in inodes:
                            return True
        return False

    def _stream(self, path: str, body: Any) -> Iterator[dict[str, Any]]:
        with self._open(path, body, REQUEST_TIMEOUT_S) as response:
            for raw in response:
                line = raw.decode().strip()
                if line.startswith("data:") and "[DONE]" not in line:
                    yield json.loads(line[5:])

    @contextlib.contextmanager
    def _open(self, path: str, body: Any, timeout_s: float) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        headers = {
            "Authorization": f"Bearer {profile.API_KEY}",
            "Content-Type": "application/json",
        }
        data = json.dumps(body) if body is not None else None
        try:
            connection.request("POST" if data else "GET", path, data, headers)
            response = connection.getresponse()
            if response.status != 200:
                raise AssertionError(f"{path}: {response.status}: {response.read().decode()[:500]}")
            yield response
        finally:
            connection.close()


@contextlib.contextmanager
def start(
    folder: Path,
    *,
    name: str = "server",
    fingerprint: str = "gpu-tests",
    environment: dict[str, str] | None = None,
    **changes: Any,
) -> Iterator[Server]:
    """Start a server of the model in `folder` with the production settings and these changes.

    `name` names its log, `fingerprint` its folder of the SSD tier; `environment` is set on top of
    what the settings give, for what they refuse to leave open. Raises StartFailed.
    """
    settings = profile.settings(folder, _free_port(), **changes)
    rendered = profile.render(settings, fingerprint)
    rendered.environment.update(environment or {})
    profile.RESULTS.mkdir(parents=True, exist_ok=True)
    for each in ("home", "cache"):
        (profile.SCRATCH / each).mkdir(parents=True, exist_ok=True)
    log = profile.RESULTS / f"{name}.log"
    config = profile.RESULTS / f"{name}.yaml"
    config.write_text(rendered.yaml, encoding="utf-8")
    with log.open("wb") as output:
        running = Server(_spawn(config, rendered, output), settings, log, time.monotonic())
    try:
        _wait_ready(running, settings.ready_timeout_s)
        yield running
    finally:
        running.end()


def _spawn(config: Path, rendered: profile.Rendered, output: IO[bytes]) -> subprocess.Popen[bytes]:
    serve = ["-m", "vllm.entrypoints.cli.main", "serve", "--config", str(config)]
    return subprocess.Popen(
        [profile.python(), *serve],
        env=rendered.environment,
        cwd=profile.SCRATCH,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _wait_ready(running: Server, timeout_s: float) -> None:
    while True:
        elapsed = time.monotonic() - running.began
        if running.process.poll() is not None:
            raise StartFailed(f"exit {running.process.returncode}\n{_end_of(running.log)}")
        if elapsed > timeout_s:
            raise StartFailed(f"not ready after {timeout_s} s\n{_end_of(running.log)}")
        with contextlib.suppress(OSError, AssertionError, http.client.HTTPException):
            if running.owns_port():
                running.request("/health", timeout_s=5)
                running.ready_s = time.monotonic() - running.began
                return
        time.sleep(0.5)


def _end_of(log: Path, lines: int = 30) -> str:
    """The cause as the watched start would show it, and the end of the log."""
    written = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join([startlog.last_error(written), "", *written[-lines:]])


def document(seed: int, length: int) -> list[int]:
    """A prompt of so many tokens; the same seed gives the same."""
    drawn = random.Random(seed)
    return [drawn.randrange(model.FIRST_PLAIN_TOKEN, model.VOCABULARY) for _ in range(length)]


def _top(choice: dict[str, Any]) -> dict[int, float]:
    """Token id to logprob of the first token that a choice carries."""
    found = ((choice.get("logprobs") or {}).get("top_logprobs") or [{}])[0]
    return {_token_id(token): value for token, value in found.items()}


def _token_id(text: str) -> int:
    return int(text.removeprefix("token_id:"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
