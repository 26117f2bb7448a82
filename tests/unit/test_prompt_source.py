"""Where a prompt came from, and how the package gets into a release."""

import pytest

from prompt_source.sources import COMPUTED, GPU_CACHE, OFFLOADED, SOURCES, FirstToken
from tasks.shared.engine import serving
from tasks.shared.release import packages, releases


@pytest.mark.parametrize(
    ("computed", "gpu_cache", "offloaded", "source"),
    [
        (1000, 0, 0, COMPUTED),
        (100, 900, 0, GPU_CACHE),
        (100, 0, 900, OFFLOADED),
        (700, 300, 0, COMPUTED),  # a system prompt that all requests share
        (100, 500, 400, GPU_CACHE),
        (500, 500, 0, COMPUTED),
        (0, 500, 500, OFFLOADED),
        (0, 0, 0, COMPUTED),
    ],
)
def test_a_prompt_came_from_where_most_of_it_did(computed, gpu_cache, offloaded, source):
    assert FirstToken(1.0, 1.0, computed, gpu_cache, offloaded).source == source
    assert source in SOURCES


def test_every_release_holds_it_with_its_entry_point():
    files = packages.inputs()
    info = "packages/vllm-prompt-source/vllm_prompt_source-1.0.dist-info"
    assert files[f"{info}/entry_points.txt"] == (
        "[vllm.stat_logger_plugins]\nprompt_source = prompt_source.logger:PromptSourceLogger\n"
    )
    assert "packages/vllm-prompt-source/prompt_source/logger.py" in files
    assert "packages/vllm-shortest-first/shortest_first/scheduler.py" in files


def test_switching_it_off_is_a_matter_of_the_environment_not_of_the_release(make):
    on, off = make(), make(prompt_source_metrics=False)
    assert releases.wanted(on).name == releases.wanted(off).name
    assert "PROMPT_SOURCE_METRICS" not in serving.environment(on, "r")
    assert serving.environment(off, "r")["PROMPT_SOURCE_METRICS"] == "0"


def test_the_variable_itself_is_refused(make):
    with pytest.raises(ValueError, match="must not name PROMPT_SOURCE_METRICS"):
        make(extra_env={"PROMPT_SOURCE_METRICS": "0"})
