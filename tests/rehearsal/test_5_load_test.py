"""A load test of the stand-in: what it asks, keeps and refuses, and how it judges.

vLLM's own benchmark and engine: test_campaign_load_test.py.
"""

import contextlib
import json
import shutil

import pytest

from . import deploys, switching

TASK = "tasks/load_test.py"
SHORT = [
    *("--data", "load_test_concurrency=[2]"),
    *("--data", 'load_test_prompts=["real"]'),
    *("--data", 'load_test_lengths=["short"]'),
    *("--data", "load_test_answer=8"),
    *("--data", "load_test_scenarios=[]"),
    *("--data", "load_test_tolerance=40"),
]


@contextlib.contextmanager
def told(host, **env):
    """While it lasts, a generation serves whose server is told these variables."""
    before = deploys.hostkit_state(host)["current"]
    status, said = switching.switch(host, switching.variant(host, before, **env))
    assert status == 0, said
    try:
        yield
    finally:
        assert switching.switch(host, before, "--force")[0] == 0


@pytest.fixture(scope="module")
def quick(standin_host):
    """A server that takes a twentieth of a second a token, and no results of earlier tests."""
    shutil.rmtree(folder(standin_host), ignore_errors=True)
    with told(standin_host, STANDIN_TOKEN_S="0.05"):
        yield standin_host


def folder(host):
    return deploys.checkout(host) / "results/load_test" / host


def results(host):
    files = sorted(folder(host).glob("*.json"))
    return [json.loads(file.read_text()) for file in files]


def load_test(host, *data):
    done = deploys.pyinfra(TASK, "-y", *SHORT, *data, host=host)
    return done.returncode, done.stderr


def answered(host):
    text = deploys.request(host, "/metrics")[1]
    line = next(each for each in text.splitlines() if "request_success_total" in each)
    return float(line.split()[-1])


def test_it_measures_keeps_and_shows_what_it_asked_and_an_unchanged_repeat_is_in_order(quick):
    before = answered(quick)
    status, said = load_test(quick)
    assert status == 0, said
    # Six are its own; two warm the server up, one asks whether it still answers.
    assert answered(quick) - before == 6 + 2 + 1
    assert "no earlier result of this host to compare with" in said
    (kept,) = results(quick)
    state = deploys.hostkit_state(quick)
    assert kept["digest"] == state["generations"][str(state["running"])]["digest"]
    assert [(row["completed"], row["failed"]) for row in kept["rows"]] == [(6, 0)]
    # Two at once, each at most twenty tokens a second.
    assert 15 < kept["rows"][0]["figures"]["answer_tokens_per_s"] <= 40
    assert "<svg" in next(folder(quick).glob("*.svg")).read_text()

    status, said = load_test(quick, "--data", 'load_test_scenarios=["late_short","evicted"]')
    assert status == 0, said
    assert "the same generation" in said
    assert "in the same way before: late short question; evicted document" in said
    late, document = (row["figures"] for row in results(quick)[-1]["rows"][1:])
    # A token takes it a twentieth of a second, be it of a long prompt or of one that it knows.
    assert {*late} == {"alone_first_token_ms"}
    assert {*document} == {"computed_first_token_ms", "gpu_first_token_ms"}
    assert all(50 <= value < 2000 for value in (*late.values(), *document.values()))
    assert "is computed before a question can be late" in said


def test_a_slower_server_fails(quick):
    with told(quick, STANDIN_TOKEN_S="0.15"):
        status, said = load_test(quick)
        assert status == 1
        for figure in ("tokens/s", "first token (s)", "per token (ms)"):
            assert f"real, short, 2 in parallel: {figure}" in said
        assert "% worse, 40 % are tolerated (load_test_tolerance)" in said
        assert "another generation" in said
        assert results(quick)[-1]["verdict"] == "worse"


@pytest.mark.campaign
def test_a_slower_server_goes_on_failing_until_it_is_accepted(quick):
    assert load_test(quick, "--data", "load_test_baseline=new")[0] == 0
    with told(quick, STANDIN_TOKEN_S="0.15"):
        assert [load_test(quick)[0] for _ in range(2)] == [1, 1]
        assert load_test(quick, "--data", "load_test_baseline=new")[0] == 0
        assert load_test(quick)[0] == 0


def test_a_server_in_use_is_not_measured(quick):
    body = {"model": "standin", "prompt": "1 2 3", "max_tokens": 200, "ignore_eos": True}
    client = deploys.start_request(quick, "/v1/completions", body, deploys.api_key(quick))
    deploys.wait_for("the request", lambda: " 1.0" in deploys.request(quick, "/metrics")[1])
    count = len(results(quick))
    status, said = load_test(quick)
    assert status == 1
    assert "not tested: 1 requests run or wait" in said
    assert len(results(quick)) == count
    client.communicate(timeout=60)


@pytest.mark.campaign
def test_a_plan_shows_what_would_be_asked_and_asks_nothing(quick):
    before = answered(quick)
    done = deploys.pyinfra(TASK, "--dry", *SHORT, host=quick)
    assert done.returncode == 0
    assert "1 runs, 6 requests" in done.stderr
    assert answered(quick) == before


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        pytest.param(
            "fails", "the stand-in's benchmark was told to fail", marks=pytest.mark.campaign
        ),
        ("leaves-a-child", "the load test left behind: process"),
    ],
)
def test_a_benchmark_that_goes_wrong_leaves_a_server_and_no_process(quick, fault, cause):
    with told(quick, STANDIN_BENCH=fault, STANDIN_TOKEN_S="0"):
        status, said = load_test(quick)
        assert status == 1
        assert cause in said
        assert switching.serving(quick)
        deploys.on_host("python3 -IB /opt/vllm/hostkit load-test left", host=quick)


@pytest.mark.campaign
def test_a_soak_keeps_a_sample_of_each_round(quick):
    status, said = load_test(quick, "--data", "soak=0.003")
    assert status == 0, said
    (row,) = results(quick)[-1]["rows"]
    assert row["name"] == "soak: real, short, 2 in parallel"
    assert len(row["samples"]) >= 2
    assert all(sample["server_mib"] > 10 for sample in row["samples"])
    assert "memory of the server (MiB)" in said


@pytest.mark.campaign
def test_a_sweep_measures_each_and_leaves_the_server_that_it_found(quick):
    before = deploys.hostkit_state(quick)
    words = ("--data", "sweep=mtp", "--data", "mtp_tokens=1")
    status, said = load_test(quick, *words)
    assert status == 1
    assert "mtp-above-1" in said
    status, said = load_test(quick, *words, "--data", 'accept_risks=["mtp-above-1"]')
    assert status == 0, said
    names = [row["name"] for row in results(quick)[-1]["rows"]]
    assert names == [f"MTP {n}: real, short, 2 in parallel" for n in (1, 2, 3, 4)]
    after = deploys.hostkit_state(quick)
    for key in ("running", "current", "previous"):
        assert after[key] == before[key], key
    tried = {number for number in after["generations"] if number not in before["generations"]}
    assert not [number for number in tried if after["generations"][number]["verified"]]
    assert switching.serving(quick) == before["running"]
