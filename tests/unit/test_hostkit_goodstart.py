"""What a start was like, and when the next one is worse."""

import pytest

from hostkit.generation import generations
from hostkit.host import paths
from hostkit.serving import goodstart
from hostkit.serving.goodstart import Start

LOG = [
    "Using TURBOQUANT attention backend out of potential backends: ['TURBOQUANT'].",
    "GPU KV cache size: 293,040 tokens, Maximum concurrency for 65,536 tokens per request: 4.47x",
]
METRICS = """
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 60.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="m"} 40.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 58.0
"""


def test_what_vllm_reports_is_read_from_its_log_and_metrics():
    found = goodstart.of(LOG, 41.23, METRICS)
    assert (found.ready_s, found.kv_tokens, found.backend) == (41.2, 293040, "TURBOQUANT")
    assert found.acceptance == 1.58


def test_nothing_is_invented_for_a_server_that_does_not_say():
    found = goodstart.of(["Application startup complete."], 3)
    assert (found.kv_tokens, found.backend, found.acceptance) == (None, None, None)


BEFORE = Start(40, 100_000, "TURBOQUANT", 1.58)


@pytest.mark.parametrize(
    ("now", "warned", "failed"),
    [
        (Start(41, 97_100, "TURBOQUANT", 1.58), "", ""),
        (Start(41, 97_000, "TURBOQUANT", 1.58), "3.0 % smaller", ""),
        (Start(41, 90_100, "TURBOQUANT", 1.58), "9.9 % smaller", ""),
        (Start(41, 90_000, "TURBOQUANT", 1.58), "", "10.0 % smaller than 100,000"),
        (Start(41, 120_000, "TURBOQUANT", 1.58), "", ""),
        (Start(41, 100_000, "TRITON_ATTN", 1.58), "is TRITON_ATTN and was TURBOQUANT", ""),
        (Start(41, 100_000, "TURBOQUANT", 1.40), "is 1.4 and was 1.58", ""),
        (Start(41, 100_000, "TURBOQUANT", 1.50), "", ""),
        (Start(90, 100_000, "TURBOQUANT", 1.58), "took 90 s and 40 s before", ""),
        (Start(41), "", ""),
    ],
)
def test_a_start_is_measured_by_the_last_good_one(now, warned, failed):
    warnings, failures = goodstart.compare(now, BEFORE, 10)
    assert bool(warnings) == bool(warned)
    assert bool(failures) == bool(failed)
    assert warned in "".join(warnings)
    assert failed in "".join(failures)


def test_a_loss_can_be_accepted_by_name_as_the_message_says():
    _, failures = goodstart.compare(Start(41, 80_000), BEFORE, 10)
    assert failures[0].endswith("--data kv_pool_tolerance=21")
    assert goodstart.compare(Start(41, 80_000), BEFORE, 21)[1] == []


def test_the_record_of_a_generation_is_read_back_and_a_torn_one_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "GENERATIONS", tmp_path)
    monkeypatch.setattr(paths, "PREVIOUS", tmp_path / "previous")
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
    goodstart.record(1, BEFORE)
    assert goodstart.last_good(2, 1) == BEFORE
    (generations.folder(2) / "start.json").write_text('{"ready')
    assert goodstart.last_good(2, None) is None
