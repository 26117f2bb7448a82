"""Time to first token by where the prompt came from: on vLLM's own statistics, and on /metrics.

What is asserted of the statistics was found by real_prompt_source.py under the release's own
Python. GPU_CACHE is what vLLM calls its prefix cache; here it lies in RAM, there being no GPU.
"""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from . import deploys

PYTHON = "/opt/vllm/current/release/venv/bin/python"
SCRIPT = Path(__file__).parent / "scripts/real_prompt_source.py"


def of(name, source, rest=""):
    return f'{name}{{engine="0",{rest}model_name="a model",source="{source}"}}'


@pytest.fixture(scope="module")
def facts(deployed):
    text = SCRIPT.read_text(encoding="utf-8")
    deploys.on_host("cat > /srv/real_prompt_source.py", host=deployed, stdin=text)
    said = deploys.on_host(
        f"cd /var/lib/vllm && HOME=/tmp VLLM_LOGGING_LEVEL=INFO {PYTHON} -B "
        "/srv/real_prompt_source.py 2>&1",
        host=deployed,
    )
    *log, found = said.splitlines()
    return json.loads(found) | {"log": log}


def test_vllm_finds_it_and_can_make_one(facts):
    assert facts["loaded"] == ["PromptSourceLogger"]
    assert facts["abstract"] is False


def test_each_first_token_of_a_step_counts_for_its_own_source(facts):
    before, after = facts["several"]["before"], facts["several"]["after"]
    assert set(before.values()) == {0.0}
    # Latency, prefill and computed tokens of the three requests, as the script made them.
    expected = {
        "computed": (2.0, 1.5, 984),
        "gpu_cache": (0.25, 0.125, 100),
        "offloaded": (0.5, 0.25, 100),
    }
    for source, (latency, prefill, computed) in expected.items():
        assert after[of("vllm_prompt_first_token_seconds_count", source)] == 1
        assert after[of("vllm_prompt_first_token_seconds_sum", source)] == pytest.approx(latency)
        assert after[of("vllm_prompt_prefill_seconds_total", source)] == pytest.approx(prefill)
        assert after[of("vllm_prompt_computed_tokens_total", source)] == computed
    bucket = "vllm_prompt_first_token_seconds_bucket"
    assert after[of(bucket, "gpu_cache", 'le="0.2",')] == 0
    assert after[of(bucket, "gpu_cache", 'le="0.3",')] == 1


def test_what_goes_wrong_ends_the_metrics_in_one_line_and_not_the_server(facts):
    assert facts["broken"]["unchanged"]
    assert facts["unfamiliar"] == "IterationStats.update_from_output takes ['self', 'output']"
    lines = [line for line in facts["log"] if "no metrics of them" in line]
    assert len(lines) == 1
    assert "AttributeError" in lines[0]


def test_switched_off_it_records_nothing(facts):
    assert facts["switched_off"]["unchanged"]


def test_several_api_servers_add_up(facts):
    assert facts["api_servers"] == ["2.0"]


def counted(host):
    """First tokens that the server has counted, by source."""
    text = deploys.request(host, "/metrics")[1]
    pattern = r'^vllm_prompt_first_token_seconds_count\{.*source="(\w+)"\} ([\d.]+)$'
    return {name: float(value) for name, value in re.findall(pattern, text, re.MULTILINE)}


def test_a_repeated_prompt_comes_from_the_cache_of_the_server_that_answers(deployed):
    prompt = [*range(3000, 4500)]
    body = {"model": "smollm2-135m", "prompt": prompt, "max_tokens": 1}
    seen = [counted(deployed)]
    for _ in range(2):
        status, text = deploys.request(deployed, "/v1/completions", body, deploys.api_key(deployed))
        assert status == 200, text
        seen.append(counted(deployed))
    first, second = (
        {source: later[source] - earlier[source] for source in later}
        for earlier, later in pairwise(seen)
    )
    assert first == {"computed": 1, "gpu_cache": 0, "offloaded": 0}
    assert second == {"computed": 0, "gpu_cache": 1, "offloaded": 0}
