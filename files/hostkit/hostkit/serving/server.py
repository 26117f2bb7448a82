"""Talks to the running server, after making sure that it is ours.

A server left over from somewhere else may hold the port and answer in its place, so every question
first looks whether the listening socket belongs to the unit.
"""

import http.client
import json
import math
import os
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from hostkit.generation import generations, start
from hostkit.host import loopback, paths, units
from hostkit.host.process import Failure

PROBE_TOKENS = 4
_KEY = re.compile(r'^VLLM_API_KEY="?([^"\n]*)"?$', re.MULTILINE)


class NotAnswering(Failure):
    """The server does not answer as it should; the text says why, for the operator."""


@dataclass(frozen=True)
class Server:
    """A running server process of the unit and where it is reached."""

    pid: int
    generation: int
    url: str
    model: str
    version: str
    port: int = 0


def find() -> Server:
    """The unit's server. NotAnswering when it does not run or its port is not its own."""
    pid = int(units.show("MainPID")["MainPID"] or 0)
    if not pid:
        raise NotAnswering(f"{paths.UNIT} is not running")
    generation = start.running_generation(pid)
    if generation is None:
        raise NotAnswering(f"process {pid} of {paths.UNIT} has not become a server yet")
    try:
        note = generations.note(generation)
    except ValueError as error:
        raise NotAnswering(str(error)) from None
    owners = units.listeners(note["port"])
    if not owners:
        if os.geteuid():
            raise NotAnswering(f"only root sees who listens on port {note['port']}: use sudo")
        raise NotAnswering(f"nothing listens on port {note['port']} yet")
    require_port(note["port"])
    url = f"http://{generations.reached_at(note)}"
    return Server(pid, generation, url, note["served_model_name"], note["version"], note["port"])


def require_port(port: int) -> None:
    """NotAnswering when a process that is not the unit's holds the port; needs root to see it."""
    for owner in units.listeners(port):
        if not units.belongs_to_unit(owner):
            command = units.command_line(owner)[:100]
            raise NotAnswering(f"port {port} is held by process {owner} ({command})")


def is_healthy(server: Server) -> bool:
    try:
        _get(server, "/health", timeout_s=5)
    except NotAnswering:
        return False
    return True


def probe(server: Server, timeout_s: float = 120) -> None:
    """Ask for a real completion of a known length, and that it is our release that gives it.

    /health alone says 200 while the engine hangs or crashes on its first request.
    """
    said = version(server, timeout_s)
    if said != server.version:
        raise NotAnswering(f"the server says version {said}, the release is {server.version}")
    body = {
        "model": server.model,
        "prompt": "One, two, three,",
        "max_tokens": PROBE_TOKENS,
        "ignore_eos": True,
        "temperature": 0,
    }
    answer = _post(server, "/v1/completions", body, timeout_s)
    usage = answer.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if tokens != PROBE_TOKENS:
        raise NotAnswering(f"a completion of {PROBE_TOKENS} tokens came back with {tokens}")


def version(server: Server, timeout_s: float = 5) -> str:
    """What the server says that it is."""
    return str(_json(_get(server, "/version", timeout_s)).get("version"))


def chat(server: Server, question: str, timeout_s: float = 120) -> str:
    """One question, one answer, at temperature 0."""
    found = message(server, question, {"max_tokens": 64}, timeout_s)
    # A model that thinks may have spent all its tokens on that.
    return str(found.get("content") or found.get("reasoning") or "(no answer)")


def message(
    server: Server, question: str, options: dict[str, Any], timeout_s: float
) -> dict[str, Any]:
    """The message that answers a question at temperature 0; NotAnswering when there is none."""
    body = {
        "model": server.model,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        **options,
    }
    answer = _post(server, "/v1/chat/completions", body, timeout_s)
    found = _choice(answer, "message")
    if not isinstance(found, dict):
        raise NotAnswering(f"an answer has no message: {str(answer)[:100]}")
    return found


def _choice(answer: dict[str, Any], part: str) -> Any:
    """A part of an answer's only choice; None when there is none."""
    try:
        return answer["choices"][0][part]
    except (KeyError, IndexError, TypeError):
        return None


def metrics(server: Server) -> str:
    """The server's metrics in Prometheus's text format."""
    return _get(server, "/metrics", timeout_s=5)


def load(server: Server) -> int:
    """Requests that the API server has taken and not ended; 0 when it does not count them."""
    try:
        count = _json(_get(server, "/load", timeout_s=5)).get("server_load")
    except NotAnswering:
        return 0
    return count if isinstance(count, int) else 0


def total(metrics: str, name: str) -> float | None:
    """A metric summed over its labels, engines for example; None when that is not known.

    Nothing that vLLM counts is negative, infinite or no number.
    """
    texts = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", metrics, re.MULTILINE)
    try:
        values = [float(text) for text in texts]
    except ValueError:
        return None
    known = bool(values) and all(0 <= value < math.inf for value in values)
    return sum(values) if known else None


def requests_in_flight(server: Server) -> int:
    """Requests that run or wait, over all engines; NotAnswering when the metrics do not say."""
    text = metrics(server)
    count = 0.0
    for metric in ("vllm:num_requests_running", "vllm:num_requests_waiting"):
        found = total(text, metric)
        if found is None:
            raise NotAnswering(f"metric {metric} is missing, or no number")
        count += found
    return int(count)


def complete(
    server: Server, prompt: str, tokens: int, timeout_s: float = 600, **options: Any
) -> str:
    """A completion of exactly so many tokens, at temperature 0."""
    body = {"model": server.model, "prompt": prompt, "max_tokens": tokens, "temperature": 0}
    answer = _post(server, "/v1/completions", body | {"ignore_eos": True, **options}, timeout_s)
    found = _choice(answer, "text")
    if not isinstance(found, str):
        raise NotAnswering(f"an answer has no text: {str(answer)[:100]}")
    return found


def count_tokens(server: Server, question: str) -> int:
    """The tokens of a question as a chat's only message, its template's included."""
    body = {"model": server.model, "messages": [{"role": "user", "content": question}]}
    count = _post(server, "/tokenize", body, timeout_s=60).get("count")
    if not isinstance(count, int):
        raise NotAnswering(f"/tokenize says count {count!r}, expected a number")
    return count


def post(server: Server, path: str, timeout_s: float = 60) -> None:
    """Tell the server to do something that has no answer. Raises NotAnswering."""
    _get(server, path, timeout_s, b"{}")


def _post(server: Server, path: str, body: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    return _json(_get(server, path, timeout_s, json.dumps(body).encode()))


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise NotAnswering(f"an answer is not a JSON object: {text[:100]!r}")
    return found


def _get(server: Server, path: str, timeout_s: float, data: bytes | None = None) -> str:
    request = urllib.request.Request(server.url + path, data)
    request.add_header("Content-Type", "application/json")
    try:
        request.add_header("Authorization", f"Bearer {api_key(server.pid)}")
        with loopback.opener.open(request, timeout=timeout_s) as response:
            return str(response.read().decode("utf-8"))
    except urllib.error.HTTPError as error:
        body = " ".join(error.read().decode("utf-8", errors="replace").split())[:200]
        raise NotAnswering(f"{path} answered {error.code}: {body}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NotAnswering(f"{path} did not answer: {error}") from None


def api_key(pid: int) -> str:
    """The key that this process was started with: the file may hold the next one already."""
    environment = (units.PROC / str(pid) / "environ").read_bytes().decode(errors="replace")
    match = _KEY.search(environment.replace("\0", "\n"))
    if not match:
        match = _KEY.search(paths.SECRETS_ENV.read_text())
    return match[1] if match else ""
