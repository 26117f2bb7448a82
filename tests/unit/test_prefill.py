"""The order of prefills as a setting: what it tells vLLM, and what it refuses."""

import pytest
from pydantic import ValidationError

from tasks.shared.engine import prefill, serving
from tasks.shared.release import packages, releases

THRESHOLD: dict[str, object] = {"prefill_order": "threshold", "long_prefill_token_threshold": 512}


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({"prefill_order": "upstream"}, {}),
        (THRESHOLD, {"long-prefill-token-threshold": 512}),
        (
            {"prefill_order": "shortest_first"},
            {"scheduler-cls": "shortest_first.scheduler.AsyncShortestFirstScheduler"},
        ),
        (
            {"prefill_order": "shortest_first", "accelerator": "cpu", "wsl2": False},
            {"scheduler-cls": "shortest_first.scheduler.ShortestFirstScheduler"},
        ),
        (
            {
                "prefill_order": "shortest_first",
                "extra_serve_args": {"no-async-scheduling": True},
            },
            {"scheduler-cls": "shortest_first.scheduler.ShortestFirstScheduler"},
        ),
    ],
)
def test_each_order_is_told_to_the_server(make, changes, flags):
    settings = make(**changes)
    assert prefill.flags(settings) == flags
    assert flags.items() <= serving.serve_config(settings, "x").items()


@pytest.mark.parametrize(
    ("bad", "good", "reason"),
    [
        (THRESHOLD | {"long_prefill_token_threshold": 0}, THRESHOLD, "above 0"),
        (
            THRESHOLD | {"long_prefill_token_threshold": 65537},
            THRESHOLD | {"long_prefill_token_threshold": 65536},
            r"must not exceed max_model_len \(65536\)",
        ),
        (THRESHOLD | {"prefill_order": "upstream"}, {"prefill_order": "upstream"}, "no effect"),
        (
            THRESHOLD | {"prefill_order": "shortest_first"},
            {"prefill_order": "shortest_first"},
            "no effect",
        ),
        ({"prefill_order": "shortest"}, {"prefill_order": "shortest_first"}, "shortest_first"),
    ],
)
def test_what_does_not_fit_the_order_is_refused_and_its_twin_passes(make, bad, good, reason):
    make(**good)
    with pytest.raises(ValidationError, match=reason):
        make(**bad)


def test_a_version_that_the_scheduler_was_not_checked_on_is_refused(make, monkeypatch):
    monkeypatch.setattr(packages, "checked_versions", lambda: ["0.30.0"])
    make(prefill_order="upstream")
    with pytest.raises(ValidationError, match=r"checked on vLLM 0\.30\.0, not on 0\.31\.0"):
        make(prefill_order="shortest_first")


def test_the_scheduler_is_in_every_release_so_that_the_order_needs_no_new_one(make):
    orders: list[dict[str, object]] = [
        {"prefill_order": "upstream"},
        THRESHOLD,
        {"prefill_order": "shortest_first"},
    ]
    names = {releases.wanted(make(**changes)).name for changes in orders}
    assert len(names) == 1


def test_a_changed_scheduler_is_another_release(make, monkeypatch, tmp_path):
    before = releases.wanted(make())
    assert releases.wanted(make()) == before
    for path in packages.SCHEDULER.rglob("*.*"):
        if path.suffix in (".py", ".toml"):
            copy = tmp_path / path.relative_to(packages.SCHEDULER)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(path.read_text())
    monkeypatch.setattr(packages, "SCHEDULER", tmp_path)
    assert releases.wanted(make()) == before
    with (tmp_path / "shortest_first/dealing.py").open("a") as file:
        file.write("# changed\n")
    assert releases.wanted(make()).name != before.name
