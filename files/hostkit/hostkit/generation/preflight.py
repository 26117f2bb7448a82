"""Asks a release's own vLLM, before anything is stopped, whether it would start with its settings.

The question is put by scripts/ask_vllm.py, as the service's user and in the generation's own
environment. It loads no model and takes no GPU memory, and is the first to go when RAM runs out.
"""

import argparse
import contextlib
import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostkit.generation import generations
from hostkit.host.process import Failure, NoEnd, attempt, reason, write_atomic
from hostkit.host.serviceuser import identity

ANSWER = "answer.json"
"""The file in a generation that says what its vLLM thinks of it."""

TIME_LIMIT_S = 600
SCRIPT = Path(__file__).parents[2] / "scripts/ask_vllm.py"
_LINE = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Answer:
    """`verdict` is accepted, refused, or unjudged: where this machine cannot tell."""

    verdict: str
    reason: str


def vllm(folder: Path) -> Answer:
    """What the vLLM of a generation's folder says of its serve.yaml and environment."""
    python = folder / "release/venv/bin/python"
    if not python.exists():
        raise Failure(f"{python} is not there: deploy again")
    env = environment((folder / "vllm.env").read_text())
    try:
        ended = attempt(
            [python, "-IB", SCRIPT, (folder / "serve.yaml").resolve()],
            "ask vLLM",
            env={"PATH": "/usr/bin:/bin", **env},
            cwd=env.get("HOME") if os.path.isdir(env.get("HOME", "")) else "/",
            timeout_s=TIME_LIMIT_S,
            preexec_fn=_step_back,
            **identity(),
        )
    except NoEnd:
        return Answer("unjudged", f"no answer within {TIME_LIMIT_S} s")
    try:
        found = json.loads(ended.output.splitlines()[-1])
        return Answer(found["verdict"], str(found["reason"])[:600])
    except (IndexError, ValueError, KeyError, TypeError):
        return Answer("unjudged", reason(ended.errors, ended.status))


def environment(text: str) -> dict[str, str]:
    """The variables of a vllm.env, as systemd reads them."""
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    return {match[1]: re.sub(r"\\(.)", r"\1", match[2]) for match in found if match}


def again(number: int) -> None:
    """Ask once more where it could not be told at staging. Raises Failure when vLLM refuses."""
    folder = generations.folder(number)
    try:
        known = json.loads((folder / ANSWER).read_text())["verdict"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if known == "unjudged":
        answer = vllm(folder)
        if answer.verdict == "refused":
            raise Failure(f"vLLM refuses generation {number}: {answer.reason}")
        keep(folder, answer)


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "check-config", help="would this generation's own vLLM start with its settings?"
    )
    parser.add_argument("generation", type=int)
    parser.set_defaults(run=_check_command)


def _check_command(args: argparse.Namespace) -> int:
    number = args.generation
    generations.note(number)
    began = time.monotonic()
    answer = vllm(generations.folder(number))
    if answer.verdict == "refused":
        raise Failure(f"vLLM refuses generation {number}: {answer.reason}")
    took = f"{time.monotonic() - began:.0f} s"
    print(f"generation {number}: {answer.verdict} by its own vLLM in {took}: {answer.reason}")
    return 0


def keep(folder: Path, answer: Answer) -> None:
    """Write an answer down beside the generation that it is about."""
    text = json.dumps({"verdict": answer.verdict, "reason": answer.reason})
    write_atomic(folder / ANSWER, text + "\n")


def _step_back() -> None:
    os.nice(10)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
