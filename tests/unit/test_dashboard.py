"""Dashboard and alerts ask only for metrics that exist: vLLM's own, by its own logger, and ours."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostkit.kv import prune
from hostkit.kv.blocks import Tally
from hostkit.metrics import gpufigures, hostfigures
from tasks.shared import metrics
from tests import promtool

VLLM = set(Path("tests/unit/vllm-0.31.0-metrics.txt").read_text("utf-8").split())
NAME = re.compile(r"\bvllm[:_][a-z0-9_]+(?::[a-z_]+)?")


def panels() -> list[dict[str, Any]]:
    found = metrics.dashboard()["panels"]
    assert isinstance(found, list)
    return found


def queries():
    """Every query of the dashboard, as Grafana would send it."""
    return [
        target["expr"].replace("$__rate_interval", "1m")
        for panel in panels()
        for target in panel.get("targets", [])
    ]


def rules():
    return [rule for group in yaml.safe_load(metrics.rules())["groups"] for rule in group["rules"]]


def ours():
    """The names of hostkit's figures, of our stat logger's, and those that a rule records."""
    source = Path(hostfigures.__file__).read_text("utf-8")
    logger = Path("files/prompt_source/prompt_source/logger.py").read_text("utf-8")
    tier = prune.Tier(Path("/"), 1, 1)
    outcome = prune.Outcome(tier, Tally(), unused_bytes=0, free=0, order="", seconds=0)
    return {
        *re.findall(r'"(vllm_host_\w+)"', source),
        *(metric.name for metric in gpufigures.parse("0, GPU-a" + ", 1" * 7)),
        *(f"vllm_kv_tier_{figure.name}" for figure in prune._figures(outcome)),
        *(rule["record"] for rule in rules() if "record" in rule),
        *(f"{name}_bucket" for name in re.findall(r'"(vllm_prompt_\w+_seconds)"', logger)),
    }


@pytest.mark.parametrize("where", ["dashboard", "rules"])
def test_every_metric_that_is_asked_for_exists(where):
    texts = queries() if where == "dashboard" else [rule["expr"] for rule in rules()]
    asked = {name for text in texts for name in NAME.findall(text)}
    assert len(asked) > 15
    assert asked - VLLM - ours() == set()


def test_the_check_of_names_sees_one_that_does_not_exist():
    assert NAME.findall("sum(rate(vllm:promt_tokens_total[1m])) / vllm_kv_tier:days") == [
        "vllm:promt_tokens_total",
        "vllm_kv_tier:days",
    ]
    assert "vllm:promt_tokens_total" not in VLLM
    assert "vllm:prompt_tokens" not in VLLM


def test_prometheus_understands_every_query(tmp_path):
    recorded = [{"record": f"x:{at}", "expr": text} for at, text in enumerate(queries())]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": recorded}]}))
    done = promtool.run("check", "rules", str(file))
    assert (done.returncode, f"{len(recorded)} rules found" in done.stdout) == (0, True), (
        done.stderr
    )


def test_grafana_finds_a_data_source_a_title_and_a_place_for_every_panel():
    dashboard, found = metrics.dashboard(), panels()
    assert dashboard["title"]
    assert '"type": "datasource", "query": "prometheus"' in json.dumps(dashboard["templating"])
    assert len({panel["id"] for panel in found}) == len(found)
    for panel in found:
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert panel["targets"]
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_no_panel_lies_on_another_or_outside_of_the_grid():
    places = [panel["gridPos"] for panel in panels()]
    for place in places:
        assert place["x"] + place["w"] <= 24
    for one, other in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
