"""Shortest-first prefill: on vLLM's own scheduler classes, and in a server that answers.

What is asserted of the classes was found by real_scheduler.py under the release's own Python.
"""

import json
import re
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from tests import prefill_orders

from . import deploys
from .host import state

OURS = ["shortest first", "shortest first async"]
UPSTREAM = ["upstream", "upstream async"]
PYTHON = "/opt/vllm/current/release/venv/bin/python"
SCRIPT = Path(__file__).parent / "scripts/real_scheduler.py"
TWIN_KEY = "twin"
START_S = 180


def found_on(host, loads):
    """What real_scheduler.py finds on the host, with so many random loads."""
    said = deploys.on_host(
        "cd /var/lib/vllm && VLLM_LOGGING_LEVEL=ERROR HOME=/tmp "
        f"{PYTHON} - models/SmolLM2* {loads}",
        host=host,
        stdin=SCRIPT.read_text(encoding="utf-8"),
        timeout_s=7200,
    )
    return json.loads(said.splitlines()[-1])


@pytest.fixture(scope="module")
def facts(deployed):
    return found_on(deployed, 4)


def test_it_is_the_release_of_the_host_that_is_asked(facts):
    assert facts["vllm"].startswith("0.31.0+cpu.patched.")


@pytest.mark.parametrize("case", ["late_short", "late_short_in_a_hybrid"])
def test_a_late_short_prompt_goes_first_and_the_long_one_is_as_good_as_before(facts, case):
    for ours, upstream in zip(OURS, UPSTREAM, strict=True):
        one, other = facts[case][ours], facts[case][upstream]
        assert other["first_token"]["r001"] == other["first_token"]["r000"]
        assert one["first_token"]["r001"] <= 5
        assert one["first_token"]["r000"] <= other["first_token"]["r000"] + 1
        assert one["steps"] <= other["steps"]


def test_in_a_hybrid_a_running_prefill_still_ends_its_chunks_at_blocks(facts):
    for name in OURS:
        steps = facts["late_short_in_a_hybrid"][name]["prefills"]
        chunks = [step["r000"] for step in steps if "r000" in step]
        *inner, last = chunks
        assert {chunk % 1584 for chunk in inner} == {0}
        assert sum(chunks) == 16000
        assert last < 1584


def check_loads(cases):
    for case in cases:
        for name, found in case["of"].items():
            where = f"seed {case['seed']}, {case['config']}, {name}"
            assert found["unfinished"] == 0, where
            assert len(found["finished"]) == 100, where
            assert found["most_tokens"] <= case["config"].get("budget", 512), where
            assert found["decodes_left_out"] == 0, where


def test_every_request_of_a_random_load_finishes_within_the_budget_decodes_first(facts):
    assert len(facts["mixed"]) == 4
    check_loads(facts["mixed"])


@pytest.mark.campaign
def test_so_does_every_request_of_two_hundred_random_loads(deployed):
    check_loads(found_on(deployed, 200)["mixed"])


def test_as_many_tokens_are_computed_as_upstream_computes(facts):
    compared = 0
    for case in facts["mixed"]:
        of = case["of"]
        if case["config"].get("caching") or any(of[name]["preemptions"] for name in of):
            continue  # what is computed twice, or not at all, depends on the order
        compared += 1
        assert len({found["tokens"] for found in of.values()}) == 1, case["seed"]
    assert compared


def test_the_mean_wait_of_a_random_load_is_shorter(facts):
    def mean(name):
        waits = [list(case["of"][name]["first_token"].values()) for case in facts["mixed"]]
        return sum(map(sum, waits))

    for ours, upstream in zip(OURS, UPSTREAM, strict=True):
        assert mean(ours) < mean(upstream)


def test_under_an_overload_of_short_prompts_the_oldest_gets_a_quarter(facts):
    """Alone a prompt of 5,000 tokens takes ten steps of 512."""
    for name in OURS:
        found = facts["overload"][name]
        assert 10 < found["first_token"]["r000"] <= 4 * 10 + 2
        assert found["unfinished"] == 0


def test_a_long_prompt_is_admitted_although_short_ones_never_stop_coming(facts):
    """It comes before step 10 as the 41st, finds no place, and takes 14 steps of 512 alone."""
    for name in OURS:
        found = facts["waiting_long"][name]
        assert found["unfinished"] == 0
        assert found["first_token"]["r040"] < found["steps"] // 4


def test_a_prompt_of_which_most_is_cached_counts_as_short(facts):
    for name in OURS:
        first = facts["cached_prefix"][name]["first_token"]
        assert first["r002"] < first["r001"]


def test_blocked_requests_keep_their_places(facts):
    assert facts["blocked"]["ready"] == ["r000", "r002", "r004"]
    assert facts["blocked"]["order"] == ["r004", "r001", "r002", "r003", "r000"]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("good", ""),
        ("good async", ""),
        ("priority", "--scheduling-policy priority: leave that away"),
        ("threshold", "--long-prefill-token-threshold 64: leave that away"),
        ("unchunked", "without chunked prefill"),
        ("sync for async", "use --scheduler-cls shortest_first.scheduler.AsyncShortestFirst"),
        ("async for sync", "use --scheduler-cls shortest_first.scheduler.ShortestFirst"),
        ("another vLLM", "has no finished_recving_kv_req_ids: use the scheduler of upstream"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_start_in_one_line(facts, case, words):
    said = facts["refusals"][case]
    assert words in said
    assert "\n" not in said
    assert bool(said) == bool(words)


@pytest.fixture
def twin(deployed):
    """The port of a second server on the host: the same but for the order, which is upstream's."""
    port = state.load(deployed).api_port + 1000
    deploys.on_host(
        f"sed -e /^scheduler-cls:/d -e 's/^port: .*/port: {port}/' /opt/vllm/current/serve.yaml "
        ">/srv/twin.yaml && systemd-run --quiet --collect --unit=twin -p User=vllm "
        f"-p EnvironmentFile=/opt/vllm/current/vllm.env -E VLLM_API_KEY={TWIN_KEY} "
        "/opt/vllm/current/release/venv/bin/vllm serve --config /srv/twin.yaml",
        host=deployed,
    )
    try:
        until = time.monotonic() + START_S
        while metrics(port) is None:
            assert time.monotonic() < until, deploys.on_host("journalctl -u twin", host=deployed)
            time.sleep(1)
        yield port
    finally:
        deploys.on_host("systemctl stop twin; rm /srv/twin.yaml", host=deployed)


def metrics(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return answer.read().decode()
    except OSError:
        return None


def first_tokens(port, key):
    """When the first token of a long prompt came, and of a short one sent while it was computed."""
    ask = prefill_orders.http_ask(port, key, "smollm2-135m")
    came = {}

    def one(name, prompt):
        ask(prompt, 1)
        came[name] = time.monotonic()

    # Seven steps of 256 tokens, full ones: another prompt's chunk comes in a step of its own, which
    # takes nearly as long, so that this program cannot see the two answers in the wrong order.
    long = threading.Thread(target=one, args=("long", [*range(1000, 2792)]))
    long.start()
    while not re.search(r"^vllm:num_requests_running\{.*\} 1\.0$", metrics(port), re.MULTILINE):
        assert long.is_alive(), "the long request ended too early to tell"
    one("short", [*range(5000, 5200)])
    long.join()
    return came


def test_a_short_request_is_answered_before_a_long_prefill_has_ended(deployed):
    came = first_tokens(state.load(deployed).api_port, deploys.api_key(deployed))
    assert came["short"] < came["long"]


def test_under_upstream_it_waits_for_the_whole_of_it(deployed, twin):
    """The twin: the same requests, the same vLLM, no scheduler of ours."""
    came = first_tokens(twin, TWIN_KEY)
    assert came["long"] < came["short"]
