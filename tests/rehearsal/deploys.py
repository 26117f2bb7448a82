"""Running the deploy against rehearsal hosts, as an operator would, and reading what it says."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .host import state
from .host.errors import RehearsalError

INVENTORY = "tests/rehearsal/inventory.py"
PYINFRA = (str(Path(sys.executable).with_name("pyinfra")), INVENTORY)


@dataclass(frozen=True)
class Totals:
    """pyinfra's own count over all operations of a run."""

    success: int
    error: int
    no_change: int
    changed: tuple[str, ...] = ()
    """The operations that changed something, by name."""

    def __str__(self) -> str:
        return f"{self.success} changed, {self.no_change} unchanged, {self.error} failed"


def checkout(host: str) -> Path:
    """The folder in which pyinfra runs for this host: its own one where it has one (standin/)."""
    own = state.folder_of(host) / "checkout"
    return own if own.is_dir() else state.REPOSITORY


def environment(host: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a pyinfra run against one host of this clone."""
    return {
        **os.environ,
        "REHEARSAL_HOSTS": host,
        "PYINFRA_PROGRESS": "off",
        "PYTHONDONTWRITEBYTECODE": "1",
        **(extra or {}),
    }


def pyinfra(
    *arguments: str,
    host: str = state.DEFAULT_NAME,
    inventory: str = INVENTORY,
    answer: str = "",
    timeout_s: float = 900,
) -> subprocess.CompletedProcess[str]:
    """Run pyinfra against one host, without a terminal; the caller looks at the exit status.

    `answer` is what the operator types when asked.
    """
    return subprocess.run(
        [PYINFRA[0], inventory, *arguments],
        cwd=checkout(host),
        env=environment(host),
        input=answer,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def deploy_and_kill(host: str, reached: Callable[[str, float], bool], *task: str) -> bool:
    """Start a deploy, or another task, and end it with SIGKILL; False when it ended before that.

    `reached` is asked after each line of its output, with the line and the seconds since the start,
    and every tenth of a second with an empty line.
    """
    deploy = subprocess.Popen(
        [*PYINFRA, *(task or ("deploy.py",)), "-y"],
        cwd=checkout(host),
        env=environment(host),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert deploy.stderr
    os.set_blocking(deploy.stderr.fileno(), False)
    began, pending = time.monotonic(), b""
    while deploy.poll() is None:
        pending += deploy.stderr.read() or b""
        *lines, pending = pending.split(b"\n")
        elapsed = time.monotonic() - began
        if any(reached(line.decode(errors="replace"), elapsed) for line in [*lines, b""]):
            os.killpg(deploy.pid, signal.SIGKILL)
            return deploy.wait() == -signal.SIGKILL
        time.sleep(0.1)
    return False


def at_operation(operation: str) -> Callable[[str, float], bool]:
    """For `deploy_and_kill`: as soon as this operation begins."""
    return lambda line, _elapsed: "Starting operation" in line and operation in line


def deploy_json(*arguments: str, host: str = state.DEFAULT_NAME, file: str = "deploy.py") -> Totals:
    """Run a task with -y --json and return pyinfra's totals; RehearsalError when it fails."""
    done = pyinfra(file, "-y", "--json", *arguments, host=host)
    if done.returncode:
        raise RehearsalError(f"{file} ended with {done.returncode}: {done.stderr[-2000:]}")
    results = json.loads(done.stdout)["results"]
    totals = results["totals"]
    changed = tuple(each["name"] for each in results["operations"] if each["success"])
    return Totals(totals["success"], totals["error"], totals["no_change"], changed)


def serve_by_settings(host: str) -> None:
    """Let the generation of the host's own settings serve, whatever does, and whoever uses it."""
    for task in ("deploy.py", "tasks/restart_vllm.py"):
        done = pyinfra(task, "-y", "--data", "force=yes", host=host)
        assert done.returncode == 0, done.stderr


def ask(question: str, host: str = state.DEFAULT_NAME) -> str:
    """The served model's answer, asked for on the host itself."""
    return on_host("python3", "-IB", "/opt/vllm/hostkit", "ask", f"'{question}'", host=host)


def on_host(
    *words: str,
    host: str = state.DEFAULT_NAME,
    check: bool = True,
    stdin: str = "",
    timeout_s: float = 300,
) -> str:
    """Run a shell command on the host over SSH and return what it prints."""
    done = subprocess.run(
        state.load(host).ssh_command(*words),
        input=stdin,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
    if check and done.returncode:
        raise RehearsalError(f"{' '.join(words)}: exit {done.returncode}: {done.stderr[-800:]}")
    return done.stdout.rstrip("\n")


_RUNNING = re.compile(r"^vllm:num_requests_running\{.*\} 1\.0$", re.MULTILINE)
_REQUEST = """
import json, sys, urllib.error, urllib.request
url, key, body = json.load(sys.stdin)
request = urllib.request.Request(url, json.dumps(body).encode() if body else None)
request.add_header("Authorization", "Bearer " + key)
request.add_header("Content-Type", "application/json")
try:
    with urllib.request.urlopen(request, timeout=600) as answer:
        print(json.dumps([answer.status, answer.read().decode()]))
except urllib.error.HTTPError as error:
    print(json.dumps([error.code, error.read().decode()]))
"""


def start_request(
    host: str, path: str, body: object = None, key: str = ""
) -> subprocess.Popen[str]:
    """Send a request to the server from the host itself, as a client there would."""
    rehearsal = state.load(host)
    script = shlex.quote(_REQUEST)
    client = subprocess.Popen(
        rehearsal.ssh_command(f"python3 -IB -c {script}"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdin
    json.dump([f"http://127.0.0.1:{rehearsal.api_port}{path}", key, body], client.stdin)
    client.stdin.close()
    client.stdin = None
    return client


def start_long_request(host: str, tokens: int = 1500) -> subprocess.Popen[str]:
    """A request that keeps the server busy for a while; returns once it is being worked on."""
    body = {"model": "smollm2-135m", "prompt": "1 2 3", "max_tokens": tokens, "ignore_eos": True}
    client = start_request(host, "/v1/completions", body, api_key(host))
    while not _RUNNING.search(request(host, "/metrics")[1]):
        assert client.poll() is None, "the request ended too early"
    return client


def request(host: str, path: str, body: object = None, key: str = "") -> tuple[int, str]:
    """The status and the body that the server answers a request with."""
    output, _ = start_request(host, path, body, key).communicate(timeout=600)
    status, text = json.loads(output)
    return status, text


@contextlib.contextmanager
def asking(host: str, body: object) -> Iterator[list[int]]:
    """A client that asks for completions, one after another, for as long as the block lasts.

    Yields the statuses that it has been answered with so far.
    """
    answers: list[int] = []
    over = threading.Event()

    def client() -> None:
        key = api_key(host)
        while not over.is_set():
            answers.append(request(host, "/v1/completions", body, key)[0])

    thread = threading.Thread(target=client)
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join()


def wait_for(what: str, question: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait until a question is answered with something true, and return that."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.5)
    return answer


def latest_failure(host: str) -> dict[str, Any]:
    """The report of the newest failure that hostkit has kept, and its number: 0 for none."""
    folder = "/var/lib/vllm/health/failures"
    newest = on_host(f"ls {folder} 2>/dev/null | sort -n | tail -n 1", host=host)
    if not newest:
        return {"number": 0}
    report = on_host(f"cat {folder}/{newest}/report.json", host=host)
    found: dict[str, Any] = json.loads(report)
    return found | {"number": int(newest)}


def api_key(host: str) -> str:
    return (state.load(host).folder / "api_key").read_text(encoding="utf-8").strip()


def snapshot(host: str) -> dict[str, Any]:
    """What a dry run must leave alone: see snapshot.py, which this runs on the host."""
    script = (Path(__file__).parent / "scripts/snapshot.py").read_bytes()
    done = subprocess.run(
        state.load(host).ssh_command("python3 -IB -"),
        input=script,
        capture_output=True,
        check=True,
        timeout=300,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def hostkit_state(host: str) -> dict[str, Any]:
    """The service and its generations, as hostkit reports them."""
    found: dict[str, Any] = json.loads(on_host("python3 -IB /opt/vllm/hostkit state", host=host))
    return found


def run_visibly(*command: str) -> None:
    """Run a command with its output on the operator's screen; RehearsalError when it fails."""
    done = subprocess.run(
        command, cwd=state.REPOSITORY, env=environment(state.DEFAULT_NAME), check=False
    )
    if done.returncode:
        raise RehearsalError(f"{' '.join(command)}: ended with {done.returncode}")
