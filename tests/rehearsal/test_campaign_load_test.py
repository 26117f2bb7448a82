"""A load test with vLLM's own benchmark and engine."""

import contextlib
import json
import shlex
import shutil

import pytest

from . import deploys

pytestmark = pytest.mark.campaign

ASKED = [
    *("--data", "load_test_concurrency=[2]"),
    *("--data", 'load_test_lengths=["short"]'),
    *("--data", "load_test_answer=16"),
]
REAL = ("--data", 'load_test_prompts=["real"]', "--data", "load_test_scenarios=[]")
# Two cores that others use as well: an unchanged server may take half as long again.
TOLERANCE = ("--data", "load_test_tolerance=100")

# Lets the server work for a tenth of the time.
_SLOW = """
while :; do
    systemctl kill --signal=STOP vllm; sleep 0.9; systemctl kill --signal=CONT vllm; sleep 0.1
done
"""


@pytest.fixture(scope="module")
def measured(deployed):
    """The host after its first load test: of both kinds of prompts, and with both scenarios."""
    shutil.rmtree(folder(deployed), ignore_errors=True)
    done = deploys.pyinfra("tasks/load_test.py", "-y", *ASKED, host=deployed, timeout_s=1800)
    assert done.returncode == 0, done.stderr
    return deployed


def folder(host):
    return deploys.checkout(host) / "results/load_test" / host


def newest(host):
    return json.loads(max(folder(host).glob("*.json")).read_text())


def load_test(host, *data):
    words = (*ASKED, *TOLERANCE, *data)
    done = deploys.pyinfra("tasks/load_test.py", "-y", *words, host=host, timeout_s=1800)
    return done.returncode, done.stderr


@contextlib.contextmanager
def slowed(host):
    words = shlex.join(["systemd-run", "--quiet", "--unit=slow", "bash", "-c", _SLOW])
    deploys.on_host(words, host=host)
    try:
        yield
    finally:
        deploys.on_host("systemctl stop slow; systemctl kill --signal=CONT vllm", host=host)


def test_vllms_benchmark_measures_both_kinds_of_prompts_as_long_as_was_asked(measured):
    rows = {row["name"]: row for row in newest(measured)["rows"]}
    for kind in ("synthetic", "real"):
        row = rows[f"{kind}, short, 2 in parallel"]
        assert (row["completed"], row["failed"], row["answer_tokens"]) == (6, 0, 6 * 16)
        assert 0.8 * 6 * 512 < row["prompt_tokens"] <= 6 * 512
        assert row["figures"]["answer_tokens_per_s"] > 0


def test_a_document_is_read_again_faster_than_it_was_computed(measured):
    rows = {row["name"]: row["figures"] for row in newest(measured)["rows"]}
    document = rows["evicted document"]
    assert document["gpu_first_token_ms"] < document["computed_first_token_ms"] / 2
    assert rows["late short question"]["alone_first_token_ms"] > 0


def test_an_unchanged_server_is_in_order_and_a_slowed_one_is_not(measured):
    status, said = load_test(measured, *REAL)
    assert status == 0, said
    with slowed(measured):
        status, said = load_test(measured, *REAL)
    assert status == 1
    assert "100 % are tolerated" in said


def test_a_profile_shows_the_steps_of_the_engine_and_the_server_is_the_one_before(measured):
    before = deploys.hostkit_state(measured)
    status, said = load_test(measured, "--data", "profile=1")
    assert status == 0, said
    (row,) = newest(measured)["rows"]
    assert row["figures"]["step_ms"] > 0
    assert row["figures"]["communication_percent"] == 0  # there is one rank
    after = deploys.hostkit_state(measured)
    assert (after["running"], after["previous"]) == (before["running"], before["previous"])
