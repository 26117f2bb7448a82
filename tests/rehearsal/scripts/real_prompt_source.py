"""What the stat logger makes of vLLM's own statistics; prints what it found as JSON.

Runs under the Python of a release, by test_7_prompt_source.py.
"""

import inspect
import json
import os
import subprocess
import sys
import tempfile
from types import SimpleNamespace

from prometheus_client import REGISTRY, generate_latest
from vllm.v1.engine import EngineCoreEvent, EngineCoreEventType, EngineCoreOutput
from vllm.v1.metrics.loggers import load_stat_logger_plugin_factories
from vllm.v1.metrics.stats import (
    IterationStats,
    LoRARequestStates,
    PrefillStats,
    RequestStateStats,
)

from prompt_source import first_tokens
from prompt_source.logger import PromptSourceLogger

CONFIG = SimpleNamespace(model_config=SimpleNamespace(served_model_name="a model"))


def step(*requests):
    """One step's statistics, made by vLLM: (prompt, gpu_cache, offloaded, latency, prefill)."""
    stats = IterationStats()
    for prompt, gpu_cache, offloaded, latency, prefill in requests:
        prefill_stats = PrefillStats()
        prefill_stats.set(
            num_prompt_tokens=prompt,
            num_local_cached_tokens=gpu_cache,
            num_external_cached_tokens=offloaded,
        )
        output = EngineCoreOutput(
            request_id="r",
            new_token_ids=[1],
            events=[EngineCoreEvent(EngineCoreEventType.SCHEDULED, 1000.0)],
            prefill_stats=prefill_stats,
        )
        state = RequestStateStats(arrival_time=stats.iteration_timestamp - latency)
        stats.update_from_output(output, 1000.0 + prefill, True, state, LoRARequestStates(), None)
        # The next token, which is no first one.
        more = EngineCoreOutput(request_id="r", new_token_ids=[2])
        stats.update_from_output(more, 1001.0, False, state, LoRARequestStates(), None)
    return stats


def shown():
    """Our metrics as /metrics shows them, without what is 0."""
    lines = generate_latest(REGISTRY).decode().splitlines()
    ours = [line for line in lines if line.startswith("vllm_prompt_") and "_created" not in line]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in ours)}


def a_step_of_several():
    """Three first tokens of one step, each from elsewhere: sums alone could not tell them apart."""
    logger = PromptSourceLogger(CONFIG, [0])
    before = shown()
    logger.record(
        None,
        step((1000, 16, 0, 2.0, 1.5), (1000, 900, 0, 0.25, 0.125), (1000, 100, 800, 0.5, 0.25)),
        engine_idx=0,
    )
    logger.record(None, None, engine_idx=0)
    return {"before": before, "after": shown()}


class Broken:
    """Statistics that are not as expected."""

    def __init__(self):
        self._prompt_source_first_tokens = [(object(), object())]


def broken():
    """What is recorded after something went wrong: nothing, and vLLM does not notice."""
    logger = PromptSourceLogger(CONFIG, [0])
    before = shown()
    logger.record(None, Broken(), engine_idx=0)
    logger.record(None, step((10, 0, 0, 1.0, 1.0)), engine_idx=0)
    return {"unchanged": shown() == before}


def unfamiliar():
    class Other:
        def update_from_output(self, output):
            pass

    try:
        first_tokens.follow(Other)
    except first_tokens.Unfamiliar as error:
        return str(error)
    return ""


SERVER = """
import sys
sys.path.insert(0, sys.argv[1])
import real_prompt_source as own
logger = own.PromptSourceLogger(own.CONFIG, [0])
logger.record(None, own.step((1000, 0, 0, 2.0, 1.5)), engine_idx=0)
"""


def api_servers():
    """Two processes observe one first token each; what a third one's /metrics would add up to."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": folder}
        for _ in range(2):
            own = os.path.dirname(os.path.abspath(__file__))
            subprocess.run([sys.executable, "-c", SERVER, own], env=env, check=True)
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        from vllm.v1.metrics.prometheus import get_prometheus_registry

        text = generate_latest(get_prometheus_registry()).decode()
        del os.environ["PROMETHEUS_MULTIPROC_DIR"]
    lines = [line for line in text.splitlines() if line.startswith("vllm_prompt_first_token")]
    wanted = [line for line in lines if "_count" in line and 'source="computed"' in line]
    return [line.rsplit(" ", 1)[1] for line in wanted]


def switched_off():
    os.environ["PROMPT_SOURCE_METRICS"] = "0"
    logger = PromptSourceLogger(CONFIG, [0])
    del os.environ["PROMPT_SOURCE_METRICS"]
    before = shown()
    logger.record(None, step((10, 0, 0, 1.0, 1.0)), engine_idx=0)
    return {"unchanged": shown() == before}


def main():
    found = {
        "loaded": [each.__name__ for each in load_stat_logger_plugin_factories()],
        "abstract": inspect.isabstract(PromptSourceLogger),
        "switched_off": switched_off(),
        "several": a_step_of_several(),
        "broken": broken(),
        "unfamiliar": unfamiliar(),
        "api_servers": api_servers(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
