"""What Prometheus keeps of the real engine, counted against what was asked of it."""

import re
from pathlib import Path

import pytest

from tasks.shared import metrics

from . import deploys, prometheus
from .host import state

NAMES = state.REPOSITORY / "tests/unit/vllm-0.31.0-metrics.txt"
REQUESTS, TOKENS = 3, 7


def total(text, name):
    return sum(float(found) for found in re.findall(rf"^{name}{{.*}} (\S+)$", text, re.MULTILINE))


def test_prometheus_counts_what_was_asked(deployed):
    """Metrics are on by default: the deploy has installed them, and the server's are scraped."""
    names = ("vllm:request_success_total", "vllm:generation_tokens_total")
    text = deploys.request(deployed, "/metrics")[1]
    requests, tokens = (total(text, name) for name in names)
    body = {"model": "smollm2-135m", "prompt": "One,", "max_tokens": TOKENS, "ignore_eos": True}
    for _ in range(REQUESTS):
        key = deploys.api_key(deployed)
        assert deploys.request(deployed, "/v1/completions", body, key)[0] == 200
    expected = [requests + REQUESTS, tokens + REQUESTS * TOKENS]

    def counted():
        return [prometheus.value(deployed, f"sum({name})") for name in names]

    deploys.wait_for("a scrape", lambda: counted() == expected)


@pytest.mark.campaign
def test_its_metrics_are_those_that_the_dashboard_is_checked_against(deployed):
    script = (Path(__file__).parent / "scripts/vllm_metrics.py").read_text("utf-8")
    python = "HOME=/tmp /opt/vllm/current/release/venv/bin/python -IB - 2>/dev/null"
    said = deploys.on_host(python, host=deployed, stdin=script).split()
    assert said == NAMES.read_text("utf-8").split()
    # A CPU build neither offloads nor speculates; all else that the dashboard asks for it shows.
    asked = set(said) & set(re.findall(r"vllm:\w+", metrics.DASHBOARD.read_text("utf-8")))
    shown = re.findall(r"^(vllm:\w+)", deploys.request(deployed, "/metrics")[1], re.MULTILINE)
    missing = {name for name in asked - set(shown) if "kv_offload" not in name}
    assert {name for name in missing if "spec_decode" not in name} == set()
