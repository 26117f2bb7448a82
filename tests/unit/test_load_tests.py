"""What a load test asks, and how its result is judged."""

import copy

import pytest
from pyinfra.api.exceptions import DeployError

from tasks.shared.facts.load_test import LoadTestOutlook
from tasks.shared.load_tests import compare, drift, kept, plan, show, trials

PRODUCTION = LoadTestOutlook(
    generation=3, max_model_len=65536, max_num_seqs=16, kv_tokens=293_000, hardware=["RTX 5070"]
)


def by_name(made):
    return {run.name: run for run in made.runs}


def test_the_profile_is_measured_with_every_kind_length_and_number_at_once(make):
    made = plan.plan(make(), PRODUCTION)
    runs = by_name(made)
    assert len(runs) == 3 * 2 * 3
    assert runs["real, long, 16 in parallel"].tokens == (16_000,) * 48
    assert runs["synthetic, short, 1 in parallel"].tokens == (512,) * 4
    mixed = runs["real, mixed, 8 in parallel"].tokens
    assert (min(mixed), max(mixed), len(set(mixed))) == (64, 16_000, 24)
    assert made.cut == ()


def test_prompts_are_cut_to_the_models_length(make):
    made = plan.plan(make(), PRODUCTION.model_copy(update={"max_model_len": 2048}))
    runs = by_name(made)
    assert max(runs["real, long, 8 in parallel"].tokens) == 2048 - 256 - plan.ROOM
    assert max(runs["real, short, 8 in parallel"].tokens) == 512
    assert "at most 1,760 instead of 16,000 tokens (model 2,048" in made.cut[0]


def test_prompts_at_once_are_cut_to_the_kv_pool(make):
    made = plan.plan(make(), PRODUCTION.model_copy(update={"kv_tokens": 100_000}))
    runs = by_name(made)
    assert max(runs["real, long, 1 in parallel"].tokens) == 16_000
    assert max(runs["real, long, 16 in parallel"].tokens) == 5625 - 256


def test_more_at_once_than_the_server_works_on_is_left_out_and_said(make):
    made = plan.plan(make(), PRODUCTION.model_copy(update={"max_num_seqs": 8}))
    assert {run.concurrency for run in made.runs} == {1, 8}
    assert made.cut == ("16 in parallel: the server works on 8 at a time",)


def test_a_pool_with_no_room_for_so_many_at_once_is_said_and_they_are_left_out(make):
    made = plan.plan(make(), PRODUCTION.model_copy(update={"kv_tokens": 5_600}))
    assert {run.concurrency for run in made.runs} == {1, 8}
    assert made.cut[-1] == "16 in parallel: there is room for prompts of 59 tokens only"


def test_two_plans_ask_for_the_same(make):
    assert plan.plan(make(), PRODUCTION) == plan.plan(make(), PRODUCTION)


def test_the_estimate_is_what_the_same_runs_took_and_none_without_them(make):
    names = plan.plan(make(), PRODUCTION).names
    rows = [{"name": name, "took_s": 30.0} for name in names]
    assert plan.estimate_s(names, rows) == (18 + 2) * 30
    assert plan.estimate_s(names, rows[1:]) is None


def test_a_setting_that_names_one_twice_is_refused(make):
    assert make(load_test_concurrency=[1, 2])
    with pytest.raises(ValueError, match="names one of them twice"):
        make(load_test_concurrency=[1, 1])


def result(**figures):
    told = {"answer_tokens_per_s": 100.0, "first_token_p50_ms": 500.0, "token_p50_ms": 20.0}
    return {
        "at": "2026-10-18 12:00 UTC",
        "host": "gpu",
        "digest": "aaaaaaaaaaaa",
        "hardware": ["2 x RTX 5070"],
        "versions": {"driver": "580.1"},
        "not_run": [],
        "rows": [
            {
                "name": "real, short, 8 in parallel",
                "asked": {"tokens": [512]},
                "completed": 24,
                "failed": 0,
                "figures": told | figures,
            }
        ],
    }


def test_an_unchanged_server_is_in_order():
    found = compare.compare(result(), result(), 15)
    assert found.problems == ()
    assert found.basis == ("compared with the test of 2026-10-18 12:00 UTC, the same generation",)


@pytest.mark.parametrize(
    ("figure", "fails", "passes"),
    [
        ("answer_tokens_per_s", 86.0, 88.0),
        ("first_token_p50_ms", 580.0, 570.0),
        ("token_p50_ms", 23.1, 22.9),
    ],
)
def test_each_figure_fails_beyond_the_tolerance_and_not_before(figure, fails, passes):
    assert compare.compare(result(**{figure: passes}), result(), 15).problems == ()
    (problem,) = compare.compare(result(**{figure: fails}), result(), 15).problems
    assert problem.startswith("real, short, 8 in parallel: ")
    assert "% worse, 15 % are tolerated (load_test_tolerance)" in problem


def test_a_difference_within_the_noise_of_a_short_time_is_none():
    before = result(first_token_p50_ms=30.0)
    assert compare.compare(result(first_token_p50_ms=50.0), before, 15).problems == ()
    assert compare.compare(result(first_token_p50_ms=51.0), before, 15).problems != ()


def test_a_faster_server_is_no_problem():
    found = compare.compare(result(answer_tokens_per_s=200.0), result(), 15)
    assert found.problems == ()
    assert found.changes["real, short, 8 in parallel", "answer_tokens_per_s"] == -50


def test_failed_requests_are_a_problem_without_any_earlier_result():
    now = result()
    now["rows"][0] |= {"failed": 3, "completed": 21, "error": "Bad Request"}
    found = compare.compare(now, None, 15)
    assert found.problems == ("real, short, 8 in parallel: 3 of 24 requests failed: Bad Request",)
    assert found.basis == ("no earlier result of this host to compare with",)


def test_runs_that_were_not_made_are_a_problem():
    now = result() | {"not_run": ["real, long, 8 in parallel"]}
    (problem,) = compare.compare(now, result(), 15).problems
    assert problem.startswith("1 of 2 runs were made in the time allowed")


def test_other_hardware_is_not_compared():
    before = result(answer_tokens_per_s=1000.0) | {"hardware": ["H200"]}
    found = compare.compare(result(), before, 15)
    assert found.problems == ()
    assert "the hardware was H200 and is 2 x RTX 5070" in found.basis[0]


def test_another_generation_driver_or_question_is_said():
    before = result() | {"digest": "bbbbbbbbbbbb", "versions": {"driver": "570.0"}}
    before["rows"] = copy.deepcopy(before["rows"])
    before["rows"][0]["asked"] = {"tokens": [256]}
    found = compare.compare(result(answer_tokens_per_s=1.0), before, 15)
    assert found.problems == ()
    assert found.basis[0].endswith("another generation (bbbbbbbbbbbb)")
    assert found.basis[1] == "driver was 570.0 and is 580.1"
    assert found.basis[2].endswith("in the same way before: real, short, 8 in parallel")


def test_the_newest_result_in_order_with_the_same_steps_is_compared_with(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    steps = ["a", "b"]
    assert kept.last_good("gpu/1", steps) is None
    for identity, verdict in (
        ("1", "in order"),
        ("2", "in order"),
        ("2.1", "in order"),
        ("3", "worse"),
    ):
        rows = [{"name": "soak" if identity == "2.1" else "b"}]
        file = kept.save("gpu/1", {"order": {"id": identity}, "verdict": verdict, "rows": rows})
        assert file.name == f"{identity}.json"
    found = kept.last_good("gpu/1", steps)
    assert found is not None
    assert found["order"]["id"] == "2"
    (kept.folder("gpu/1") / "4.json").write_text("{")
    with pytest.raises(ValueError, match=r"4\.json is not a load test's result: remove it"):
        kept.last_good("gpu/1", steps)


def test_the_table_shows_the_change_and_the_articles_figure():
    now, before = result(answer_tokens_per_s=80.0, token_p50_ms=30.0), result()
    lines = show.table(now, compare.compare(now, before, 15))
    row = next(line for line in lines if line.strip().startswith("real, short, 8"))
    assert row.split("  ")[-1].strip() == "352-392"
    assert "80.00 (-20 %)" in row
    assert "30.00 (+50 %)" in row
    assert "0.50 (same)" in row
    assert lines[-1].startswith("article: ")


def test_the_picture_needs_nothing_from_elsewhere(tmp_path):
    assert show.picture(result(), result(), tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text()
    assert "real, short, 8 in parallel" in text
    assert 'xlink:href="http' not in text
    assert "<script" not in text or "src=" not in text


def test_a_soak_is_one_run_over_and_over_and_nothing_else(make):
    made = plan.plan(make(soak=2.0), PRODUCTION)
    assert made.names == ["soak: real, mixed, 16 in parallel"]
    order = made.order("1", "me", 60, plan.Waits(0, 600))
    assert (order["runs"], order["scenarios"]) == ([], [])
    assert order["soak"]["seconds"] == 7200
    assert order["budget_s"] == 7200 + plan.SOAK_SPARE_S
    assert len(order["soak"]["tokens"]) == 5 * 48


def samples(**last):
    even = {"answer_tokens_per_s": 100.0, "first_token_p50_ms": 500.0, "server_mib": 8000}
    return [even | {"answer_tokens_per_s": 10.0}] + [even] * 4 + [even | last] * 2


def test_a_steady_soak_is_in_order_however_slow_its_first_round_was():
    assert drift.problems(samples(), 15) == []


@pytest.mark.parametrize(
    ("fails", "passes"),
    [
        ({"answer_tokens_per_s": 80.0}, {"answer_tokens_per_s": 90.0}),
        ({"first_token_p50_ms": 600.0}, {"first_token_p50_ms": 550.0}),
        ({"server_mib": 8500}, {"server_mib": 8300}),
    ],
)
def test_a_soak_that_drifts_fails_and_one_that_hardly_does_passes(fails, passes):
    assert drift.problems(samples(**passes), 15) == []
    (problem,) = drift.problems(samples(**fails), 15)
    assert "in the first third" in problem
    now = result()
    now["rows"][0]["samples"] = samples(**fails)
    assert f"{problem}" in compare.compare(now, None, 15).problems


def test_memory_that_the_host_lacks_is_shown_and_not_judged():
    told = [{"available_mib": 10_000}] * 3 + [{"available_mib": 100}] * 3
    assert drift.problems(told, 15) == []
    assert "memory of the host left" in str(drift.drifts(told)[0])


def test_a_sweep_tries_one_to_four_tokens_once_the_risk_is_accepted(make):
    assert trials.of(make()) == {}
    with pytest.raises(DeployError, match=r"sweep = mtp: mtp_tokens = 2: .*mtp-above-1"):
        trials.of(make(sweep="mtp"))
    found = trials.of(make(sweep="mtp", accept_risks=["mtp-above-1"]))
    assert {label: each.mtp_tokens for label, each in found.items()} == {
        f"MTP {n}": n for n in (1, 2, 3, 4)
    }


def test_a_sweep_of_a_profile_that_does_not_speculate_is_refused(make):
    with pytest.raises(DeployError, match="this profile does not speculate"):
        trials.of(make(sweep="mtp", mtp_tokens=0))


def test_the_steps_of_a_sweep_are_named_by_what_is_tried(make):
    names = plan.plan(make(), PRODUCTION).names_of(["MTP 1", "MTP 2"])
    assert len(names) == 2 * 20
    assert names[20] == "MTP 2: synthetic, short, 1 in parallel"


def test_a_profile_is_a_generation_with_a_profiler_and_a_few_requests(make):
    own = make(profile=1, extra_serve_args={"enable-prompt-tokens-details": True})
    (variant,) = trials.of(own).values()
    assert variant.extra_serve_args.keys() == {"enable-prompt-tokens-details", "profiler-config"}
    made = plan.plan(own, PRODUCTION)
    assert made.names == ["a step's profile, 16 in parallel"]
    order = made.order("1", "me", 60, plan.Waits(0, 600))
    assert order["profile"]["folder"] == "/var/lib/vllm/home/profile"
    assert len(order["profile"]["tokens"]) == 16


def test_a_soak_a_sweep_and_a_profile_are_not_made_together(make):
    with pytest.raises(DeployError, match="profile and soak are asked for: one of them in a run"):
        trials.of(make(profile=1, soak=1.0))


def test_a_soak_is_drawn_over_its_hours_and_nothing_where_no_speed_was_measured(tmp_path):
    now = result()
    now["rows"] = [{"name": "soak", "figures": {}, "samples": []}]
    assert not show.picture(now, None, tmp_path / "x.svg")
    assert not (tmp_path / "x.svg").exists()
    now["rows"][0]["samples"] = [
        {"at_s": 600.0 * n, "answer_tokens_per_s": 90.0 + n} for n in range(1, 7)
    ]
    assert show.picture(now, None, tmp_path / "x.svg")
    assert "each round" in (tmp_path / "x.svg").read_text()
