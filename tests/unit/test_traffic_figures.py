"""The arithmetic of a report, on counters whose values are plain to see."""

import math

import pytest

from tasks.shared.facts.traffic import TrafficFact
from tasks.shared.traffic import texts
from tasks.shared.traffic.figures import RAM, SSD, Cost, Figures, Tier, Tokens
from tasks.shared.traffic.histograms import Histogram, Quantile
from tests.unit.traffic_samples import counted, gauge, stretch, traffic

TTFT = Histogram(10, 12.5, ((0.5, 4), (1.0, 8), (2.0, 9), (math.inf, 10)))


@pytest.mark.parametrize(
    ("share", "value"),
    [(0.4, 0.5), (0.2, 0.25), (0.6, 0.75), (0.85, 1.5), (0.0, 0.0), (0.9, 2.0)],
)
def test_a_percentile_lies_evenly_within_its_bucket(share, value):
    found = TTFT.quantile(share)
    assert found
    assert found.value == pytest.approx(value)
    assert not found.beyond


def test_above_the_highest_bound_only_that_is_known():
    assert TTFT.quantile(0.95) == Quantile(2.0, beyond=True)
    assert texts.quantile(TTFT.quantile(0.95)) == "> 2 s"


def test_of_nothing_there_is_no_percentile_and_no_mean():
    empty = Histogram(0, 0, ((0.5, 0), (math.inf, 0)))
    assert empty.quantile(0.5) is None
    assert empty.mean is None
    assert empty.shares() == []
    assert Histogram(0, 0).quantile(0.5) is None


def test_an_empty_bucket_is_skipped():
    holes = Histogram(2, 3.0, ((1.0, 0), (2.0, 0), (4.0, 2), (math.inf, 2)))
    assert holes.quantile(0.5) == Quantile(3.0)


def test_a_metric_that_is_missing_is_unknown_and_not_zero():
    found = Figures(traffic(stretch()))
    assert found.tokens is None
    assert found.first_token() is None
    assert found.cost is None
    assert found.tier(RAM) is None
    assert found.growth is None
    assert found.gauge("kv_usage") is None
    assert found.rise("removed_bytes") is None
    assert found.requests == {}


def test_the_same_counter_of_several_intervals_and_engines_adds_up():
    name = "vllm:request_success_total"
    found = Figures(
        traffic(
            stretch(counted(name, 3, finished_reason="stop", engine="0")),
            stretch(
                counted(name, 4, finished_reason="stop", engine="1"),
                counted(name, 1, finished_reason="length"),
                counted(name, 0, finished_reason="abort"),
            ),
        )
    )
    assert found.requests == {"stop": 7, "length": 1}
    assert found.ended == 8


def prompt_tokens(computed, gpu_cache, offloaded):
    name = "vllm:prompt_tokens_by_source_total"
    return (
        counted(name, computed, source="local_compute"),
        counted(name, gpu_cache, source="local_cache_hit"),
        counted(name, offloaded, source="external_kv_transfer"),
    )


def measured(seconds, tokens, source="computed"):
    return (
        counted("vllm_prompt_prefill_seconds_total", seconds, source=source),
        counted("vllm_prompt_computed_tokens_total", tokens, source=source),
    )


def test_what_is_saved_is_what_the_tokens_would_have_cost():
    found = Figures(traffic(stretch(*prompt_tokens(1000, 500, 2000), *measured(4.0, 800))))
    assert found.tokens == Tokens(1000, 500, 2000)
    assert found.cost == Cost(0.005)
    assert found.saved_s(found.tokens.offloaded) == pytest.approx(10.0)
    assert found.saved_s(found.tokens.gpu_cache) == pytest.approx(2.5)


def test_prompts_that_were_mostly_cached_do_not_tell_what_computing_costs():
    cached = measured(9.0, 3, source="gpu_cache")
    found = Figures(traffic(stretch(*prompt_tokens(1003, 0, 0), *measured(5.0, 1000), *cached)))
    assert found.cost == Cost(0.005)


def test_without_a_computed_prompt_what_was_saved_is_unknown():
    found = Figures(traffic(stretch(*prompt_tokens(0, 0, 2000), *measured(0, 0))))
    assert found.cost is None
    assert found.saved_s(2000) is None


def test_without_the_stat_logger_it_is_measured_on_all_prompts_and_says_so():
    all_prompts = counted("vllm:request_prefill_time_seconds_sum", 6.0)
    found = Figures(traffic(stretch(*prompt_tokens(1000, 500, 2000), all_prompts)))
    assert found.cost == Cost(0.006, of_all=True)


def test_the_tiers_are_told_apart_where_the_metrics_do():
    tiering, flat = "vllm:kv_offload_tiering_", "vllm:kv_offload_"
    found = Figures(
        traffic(
            stretch(
                counted(f"{tiering}chunk_queries_total", 10, tier=RAM),
                counted(f"{tiering}chunk_hits_total", 4, tier=RAM),
                counted(f"{tiering}chunk_queries_total", 6, tier=SSD),
                counted(f"{tiering}chunk_hits_total", 2, tier=SSD),
                counted(f"{tiering}read_bytes_total", 200, tier=SSD),
                counted(f"{tiering}read_time_total", 0.5, tier=SSD),
                counted(f"{flat}load_bytes_total", 600),
                counted(f"{flat}load_time_total", 0.25),
                counted(f"{flat}store_bytes_total", 1000),
                counted(f"{flat}store_time_total", 0.75),
            )
        )
    )
    assert found.tier(RAM) == Tier(10, 4, 600, 0.25, 1000, 0.75)
    assert found.tier(SSD) == Tier(6, 2, 200, 0.5, None, None)
    assert found.loading_s == 0.75


def test_a_gauges_average_is_weighted_by_how_often_it_was_looked_at():
    one, other = stretch(kv_usage=gauge(0.5, count=30)), stretch(kv_usage=gauge(0.1, count=10))
    found = Figures(traffic(one, other)).gauge("kv_usage")
    assert found
    assert found.avg == pytest.approx(0.4)
    assert (found.max, found.count) == (0.5, 40)


def course(*sizes, step=3600.0):
    return [(n * step, size) for n, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "per_day", "days_left"),
    [
        (course(100e9, 101e9), 24e9, 49 / 24),
        (course(101e9, 100e9), -24e9, None),
        (course(150e9, 151e9), 24e9, 0),
        (course(100e9, 100e9), 0, None),
        (course(100e9, 101e9, step=600), None, None),
        (course(100e9), None, None),
    ],
    ids=["grows", "shrinks", "over the quota", "stays", "too short", "one look"],
)
def test_the_ssd_tiers_growth_tells_the_days_left(sizes, per_day, days_left):
    found = Figures(traffic(stretch(), tier_bytes=sizes, tier_quota_bytes=course(150e9))).growth
    assert found
    assert (found.size, found.quota) == (sizes[-1][1], 150e9)
    assert found.per_day == (None if per_day is None else pytest.approx(per_day))
    assert found.days_left == (None if days_left is None else pytest.approx(days_left))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0 s"),
        (0.0042, "4.2 ms"),
        (0.25, "250 ms"),
        (1.234, "1.23 s"),
        (299, "299 s"),
        (480, "8 min"),
        (577, "9.6 min"),
        (86400, "24 h"),
        (82440, "22.9 h"),
    ],
)
def test_seconds_are_written_as_a_reader_wants_them(value, text):
    assert texts.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (999, "999 B"),
        (1500, "1.5 kB"),
        (150e9, "150.0 GB"),
        (2e15, "2,000.0 TB"),
        (-24e9, "-24.0 GB"),
    ],
)
def test_bytes_are_written_in_the_units_of_disks(value, text):
    assert texts.size(value) == text


def test_a_share_of_nothing_is_unknown():
    assert texts.share(1, 3) == "33.3 %"
    assert texts.share(0, 0) == "-"
    assert texts.share(None, 3) == "-"


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (["hostkit: no Prometheus answers", "", "exit status 1"], "no Prometheus answers"),
        ([], "hostkit is not installed yet"),
        (['{"now": 1.0, "intervals": [], "courses": {}}', "exit status 0"], ""),
    ],
)
def test_what_hostkit_says_in_words_is_the_problem(output, problem):
    assert TrafficFact().process(output).problem == problem
