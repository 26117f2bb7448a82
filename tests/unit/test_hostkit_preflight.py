"""A generation's own vLLM is asked before it is staged; the vLLM here is imitated."""

import json
import sys

import pytest

from hostkit.generation import preflight
from hostkit.host import paths
from hostkit.host.process import Failure
from scripts import ask_vllm
from tasks.shared.engine import formats

VALUES = {"HOME": "/nonexistent", "ODD": 'a "b" \\ $c `d`', "EMPTY": ""}


@pytest.fixture
def candidate(tmp_path, monkeypatch):
    """A folder that is to become a generation, its release's Python answering as told."""
    monkeypatch.setattr(paths, "GENERATIONS", tmp_path / "generations")
    folder = tmp_path / "generations/candidate-d1"
    (folder / "release/venv/bin").mkdir(parents=True)
    (folder / "vllm.env").write_text(formats.env_file(VALUES))
    (folder / "serve.yaml").write_text("model: x\n")
    note = ("digest", "release", "version", "served_model_name", "model_dir", "address", "port")
    (folder / "generation.json").write_text(json.dumps(dict.fromkeys(note, "x")))
    return folder


def answers(folder, verdict, reason="because", *, before=""):
    said = json.dumps({"verdict": verdict, "reason": reason, "gpu_was_taken": False})
    script(folder, f"{before}\ncat <<'END'\nsome line of a log\n{said}\nEND\n")


def script(folder, text):
    python = folder / "release/venv/bin/python"
    python.write_text(f"#!/bin/sh\n{text}\n")
    python.chmod(0o755)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo 'ModuleNotFoundError: no vllm' >&2; exit 1", "no vllm"),
        ("kill -9 $$", "killed by signal 9"),
        ("echo not json", "exit status 0"),
    ],
)
def test_what_cannot_be_judged_is_said(candidate, text, reason):
    script(candidate, text)
    answer = preflight.vllm(candidate)
    assert answer.verdict == "unjudged"
    assert reason in answer.reason


def test_a_vllm_that_does_not_answer_is_given_up(candidate, monkeypatch):
    monkeypatch.setattr(preflight, "TIME_LIMIT_S", 0.2)
    script(candidate, "exec sleep 60")
    assert preflight.vllm(candidate) == preflight.Answer("unjudged", "no answer within 0.2 s")


def test_what_was_not_judged_at_staging_is_asked_again_before_a_stop(candidate):
    staged = candidate.rename(candidate.with_name("3"))
    answers(staged, "refused", "no such flag")
    preflight.again(3)  # staged by an older hostkit: a rollback is not held up
    (staged / "answer.json").write_text('{"verdict": "accepted", "reason": ""}')
    preflight.again(3)
    (staged / "answer.json").write_text('{"verdict": "unjudged", "reason": ""}')
    with pytest.raises(Failure, match="no such flag"):
        preflight.again(3)
    answers(staged, "accepted")
    preflight.again(3)
    assert "accepted" in (staged / "answer.json").read_text()


def test_it_runs_in_the_generations_environment_and_steps_back(candidate):
    seen = f"env >{candidate}/seen; cat /proc/self/oom_score_adj >{candidate}/score"
    answers(candidate, "accepted", before=seen)
    assert preflight.vllm(candidate).verdict == "accepted"
    assert f"ODD={VALUES['ODD']}\n" in (candidate / "seen").read_text()
    assert (candidate / "score").read_text() == "1000\n"


def test_the_environment_file_is_read_as_it_was_written():
    assert preflight.environment(formats.env_file(VALUES)) == VALUES


def raising(error):
    def ask():
        raise error

    return ask


def usage():
    print("usage: vllm serve\nvllm serve: error: unrecognized arguments: --x", file=sys.stderr)
    sys.exit(2)


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda: "checked for cpu", ("accepted", "checked for cpu")),
        (usage, ("refused", "vllm serve: error: unrecognized arguments: --x")),
        (raising(ValueError("a\n  b")), ("refused", "a b")),
        (raising(KeyError("invalid parser")), ("refused", "KeyError: invalid parser")),
        (raising(AssertionError()), ("refused", "AssertionError: AssertionError")),
        (raising(RuntimeError("no GPU")), ("unjudged", "RuntimeError: no GPU")),
        (raising(ImportError("libcuda")), ("unjudged", "ImportError: libcuda")),
        (raising(OSError("disk")), ("unjudged", "OSError: disk")),
    ],
)
def test_what_is_refused_is_told_from_what_this_machine_cannot_tell(ask, expected):
    assert ask_vllm.judge(ask) == expected


def test_what_pydantic_found_becomes_one_line():
    from pydantic import BaseModel, Field, ValidationError

    class Config(BaseModel):
        port: int = Field(lt=10)

    with pytest.raises(ValidationError) as caught:
        Config(port=11)
    assert ask_vllm.reason(caught.value) == "port. Input should be less than 10"
