"""Generations of the stand-in and switches between them, made on the host itself: a second each."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from . import deploys
from .host import state

HOSTKIT = "python3 -IB /opt/vllm/hostkit"

# Copies a generation under the next number, with other variables and flags and its own digest.
_VARIANT = """
import json, os, pathlib, shutil, sys
folder, source, env = pathlib.Path("/opt/vllm/generations"), sys.argv[1], json.loads(sys.argv[2])
number = max(int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()) + 1
new = folder / f".{number}.new"
shutil.copytree(folder / source, new, symlinks=True)
for name in ("verified", "start.json"):
    (new / name).unlink(missing_ok=True)
digest = os.urandom(6).hex()
note = json.loads((new / "generation.json").read_text())
note |= {"digest": digest, "environment": note.get("environment", {}) | env}
(new / "generation.json").write_text(json.dumps(note))
lines = (new / "vllm.env").read_text().splitlines()
env["GENERATION_DIGEST"] = digest
lines = [line for line in lines if line.split("=")[0] not in env]
lines += [f'{key}="{value}"' for key, value in env.items()]
(new / "vllm.env").write_text("\\n".join(lines) + "\\n")
with open(new / "serve.yaml", "a") as serve:
    for key, flag in json.loads(sys.argv[3]).items():
        serve.write(f"{key}: {json.dumps(flag)}\\n")
os.rename(new, folder / str(number))
print(number)
"""


def variant(host: str, source: int, flags: Mapping[str, object] | None = None, **env: str) -> int:
    """A new generation like `source`, its server told these flags and variables besides."""
    words = [str(source), json.dumps(env), json.dumps(flags or {})]
    command = f"python3 -IB - {' '.join(map(shlex.quote, words))}"
    return int(deploys.on_host(command, host=host, stdin=_VARIANT))


def switch_command(number: int, *options: str) -> str:
    """The command line on the host; the deadline is short, for the stand-in starts in a second."""
    return shlex.join([*HOSTKIT.split(), "switch", str(number), "--deadline", "8", *options])


def switch(host: str, number: int, *options: str) -> tuple[int, str]:
    """Exit status and output of a switch that runs in the foreground."""
    done = subprocess.run(
        state.load(host).ssh_command(switch_command(number, *options)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def serving(host: str) -> int:
    """The generation that answers; what it says is looked at, too."""
    assert deploys.ask("What is the capital of France?", host=host).endswith("Paris.")
    number: int = deploys.hostkit_state(host)["running"]
    return number


def starts(host: str, number: int) -> int:
    """How often a generation was started."""
    log = deploys.on_host("journalctl -u vllm -o cat --no-pager", host=host)
    return log.count(f"hostkit: generation {number},")


def remains(host: str) -> str:
    """What a watcher must not leave: systemd told not to restart the server, a lock."""
    return deploys.on_host(
        "ls /run/systemd/system/vllm.service.d 2>/dev/null; cat /run/vllm/switch.lock; true",
        host=host,
    )


def stop_before_step(host: str, step: int, number: int, *options: str) -> str:
    """Begin a switch that goes no further than its n-th lasting step; the step, or "done …"."""
    words = [str(step), "switch", str(number), "--deadline", "8", *options]
    script = (Path(__file__).parent / "scripts/cut_at_step.py").read_text(encoding="utf-8")
    stopped = subprocess.Popen(
        state.load(host).ssh_command(f"python3 -IB - {shlex.join(words)} 2>&1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert stopped.stdin
    assert stopped.stdout
    stopped.stdin.write(script)
    stopped.stdin.close()
    said = next((line for line in stopped.stdout if line.startswith(("before step", "done"))), "")
    stopped.kill()
    stopped.wait()
    stopped.stdout.close()
    return said.strip()
