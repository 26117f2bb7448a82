"""Each alert fires for what it is there for, and not for its twin: asked of Prometheus's promtool.

Values are in promtool's notation, one a minute: "0+5x60" begins with 0 and grows by 5 sixty times.
"""

import json
from dataclasses import dataclass, field

import yaml

from tasks.shared import metrics
from tests import promtool

RULES = {
    rule["alert"]: rule
    for group in yaml.safe_load(metrics.rules())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}


def host(metric, /, **labels):
    return _series(f"vllm_{metric}", {"job": "hostkit", **labels})


def server(metric, /, **labels):
    return _series(f"vllm:{metric}", {"job": "vllm", "engine": "0", **labels})


def _series(name, labels):
    pairs = [f'{key}="{value}"' for key, value in labels.items()]
    return f"{name}{{{','.join(pairs)}}}"


@dataclass(frozen=True)
class Case:
    """When an alert fires, what it then says and about what, and what is different when not.

    `at` is in minutes; `labels` are those of the alert besides its name and severity.
    """

    alert: str
    summary: str
    fires: dict[str, str]
    twin: dict[str, str]
    at: int = 20
    labels: dict[str, str] = field(default_factory=lambda: {"job": "hostkit"})


UP = 'up{job="vllm"}'
BEGAN = host("host_service_start_timestamp_seconds")
RUNNING, STEPS = server("num_requests_running"), server("iteration_tokens_total_count")
STARTS, BURST = host("host_starts_in_window"), host("host_start_limit_burst")
UNSEEN = host("host_failure_unseen", **{"class": "oom"})
GUARD = host("host_guard_action_timestamp_seconds", name="vllm.service")
POOL, GOOD_POOL = host("host_kv_pool_tokens"), host("host_kv_pool_good_tokens")
BYTES, QUOTA = host("kv_tier_bytes"), host("kv_tier_quota_bytes")
REMOVED = host("kv_tier_removed_blocks_total")
FREE, MIN_FREE = host("kv_tier_free_bytes"), host("kv_tier_min_free_bytes")
PRUNED = host("kv_tier_last_prune_timestamp_seconds")
STORED, LOADED = server("kv_offload_store_bytes_total"), server("kv_offload_load_bytes_total")
WRITTEN = server("kv_offload_tiering_write_bytes_total", tier="1:fs")
READ = server("kv_offload_tiering_read_bytes_total", tier="1:fs")

FAILED = {"state": "failed", "job": "hostkit"}
FILLING = {BYTES: "1e11+1e8x700", QUOTA: "15e10x700"}

CASES = [
    Case("VllmServiceDown", "vllm.service is failed: nothing serves",
         {host("host_service_state", state="failed"): "1x30"},
         {host("host_service_state", state="failed"): "0x30",
          host("host_service_state", state="activating"): "1x30"}, labels=FAILED),
    Case("VllmServiceDown", "vllm.service is failed: nothing serves",
         {host("host_service_state", state="failed"): "1x30"},
         {host("host_service_state", state="failed"): "0x18 1x12"}, at=19, labels=FAILED),
    Case("VllmNotAnswering", "the server's process runs, and does not answer",
         {UP: "0x60", BEGAN: "0x60"}, {BEGAN: "1200x60"}, at=50, labels={"job": "vllm"}),
    Case("VllmNotAnswering", "the server's process runs, and does not answer",
         {UP: "0x60", BEGAN: "0x60"}, {UP: "1x60"}, at=50, labels={"job": "vllm"}),
    # Idle, slow, and just begun are no hang.
    Case("VllmHangs", "requests are under way, and the engine has not made a step for ten minutes",
         {RUNNING: "2x30", STEPS: "700x30"}, {RUNNING: "0x30"}, labels={}),
    Case("VllmHangs", "requests are under way, and the engine has not made a step for ten minutes",
         {RUNNING: "2x30", STEPS: "700x30"}, {STEPS: "700+1x30"}, labels={}),
    Case("VllmHangs", "requests are under way, and the engine has not made a step for ten minutes",
         {RUNNING: "2x30", STEPS: "700x30"}, {RUNNING: "0x15 2x15"}, labels={}),
    Case("VllmStartLimitNear", "2 starts count towards the start limit: it is nearly used up",
         {STARTS: "2x30", BURST: "3x30"}, {STARTS: "1x30"}),
    Case("VllmStartLimitNear", "2 starts count towards the start limit: it is nearly used up",
         {STARTS: "2x30", BURST: "3x30"}, {BURST: "5x30"}),
    # The one start that somebody asked for is not near a limit of one or two.
    Case("VllmStartLimitNear", "2 starts count towards the start limit: it is nearly used up",
         {STARTS: "2x30", BURST: "2x30"}, {STARTS: "1x30"}),
    Case("VllmFailureUnseen", "the server failed (oom), and nobody has looked at it yet",
         {UNSEEN: "1x30"}, {UNSEEN: "1x10 stale _x20"}, labels={"class": "oom", "job": "hostkit"}),
    Case("VllmGuardActed", "memory ran short: the guard ended compilers of vllm.service",
         {GUARD: "1200x120"}, {GUARD: "60x120"}, at=70,
         labels={"name": "vllm.service", "job": "hostkit"}),
    Case("VllmKvPoolShrunk",
         "the KV pool is 284000 tokens, smaller than at the last good start",
         {POOL: "284000x30", GOOD_POOL: "293000x30"}, {POOL: "285000x30"}),
    Case("VllmKvTierNearQuota", "the SSD tier reaches its quota in 0.2 days",
         FILLING | {REMOVED: "0x700"}, {BYTES: "1e11+1e6x700"}, at=240),
    Case("VllmKvTierNearQuota", "the SSD tier reaches its quota in 0.2 days",
         FILLING | {REMOVED: "0x700"}, {REMOVED: "0x100 40x600"}, at=240),
    Case("VllmKvTierOverQuota", "the SSD tier takes 151GB, more than its quota",
         {BYTES: "151e9x60", QUOTA: "150e9x60"}, {BYTES: "150e9x60"}, at=50),
    Case("VllmKvTierDiskFull", "19GB are free on the SSD tier's disk, too few",
         {FREE: "19e9x60", MIN_FREE: "20e9x60"}, {FREE: "20e9x60"}, at=50),
    Case("VllmKvTierNotPruned", "nobody has looked at the size of the SSD tier for a day",
         {PRUNED: "0x1600"}, {PRUNED: "43200x1600"}, at=1560),
    Case("VllmRamTierNeverServes", "KV goes to RAM all day, and none has come back to a GPU",
         {STORED: "0+1000000x900", LOADED: "0x900"}, {LOADED: "0+1x900"}, at=800, labels={}),
    Case("VllmRamTierNeverServes", "KV goes to RAM all day, and none has come back to a GPU",
         {STORED: "0+1000000x900"}, {STORED: "0x900"}, at=800, labels={}),
    Case("VllmSsdTierNeverServes",
         "tier 1:fs stores KV all day, and none has come back from it",
         {WRITTEN: "0+1000000x900"}, {READ: "0+1x900"}, at=800, labels={"tier": "1:fs"}),
    Case("VllmHostFiguresMissing",
         "hostkit's figures are not served: most alerts here cannot fire",
         {'up{job="hostkit"}': "0x30"}, {'up{job="hostkit"}': "1x30"}),
    Case("VllmHostFiguresIncomplete", "the figures of gpu cannot be read",
         {host("host_collector_success", collector="gpu"): "0x30"},
         {host("host_collector_success", collector="gpu"): "1x30"},
         labels={"collector": "gpu", "job": "hostkit"}),
]  # fmt: skip
QUICK = [case for case in CASES if case.at < 100]
SLOW = [case for case in CASES if case.at >= 100]


def judged(case, series, fired):
    """One of promtool's tests: these series, and what is fired then."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": text} for name, text in series.items()],
        "alert_rule_test": [
            {"eval_time": f"{case.at}m", "alertname": case.alert, "exp_alerts": fired}
        ],
    }


def expected(case):
    """What Prometheus says of the alert: its labels and texts."""
    rule = RULES[case.alert]
    annotations = rule["annotations"] | {"summary": case.summary}
    return [{"exp_labels": rule["labels"] | case.labels, "exp_annotations": annotations}]


def promtool_says(tests, tmp_path):
    """What promtool objects to; nothing when all is as expected."""
    files = []
    # Evaluated each minute, those that take a day would take long.
    for interval, these in (("1m", tests[: len(QUICK)]), ("15m", tests[len(QUICK) :])):
        asked = {"rule_files": [str(metrics.RULES.resolve())], "evaluation_interval": interval}
        files.append(tmp_path / f"{interval}.json")
        files[-1].write_text(json.dumps(asked | {"tests": these}))
    done = promtool.run("test", "rules", *map(str, files))
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_every_alert_fires(tmp_path):
    tests = [judged(case, case.fires, expected(case)) for case in QUICK + SLOW]
    assert promtool_says(tests, tmp_path) == ""


def test_no_alert_fires_for_its_twin(tmp_path):
    tests = [judged(case, case.fires | case.twin, []) for case in QUICK + SLOW]
    assert promtool_says(tests, tmp_path) == ""


def test_an_alert_that_does_not_fire_would_be_noticed(tmp_path):
    case = CASES[0]
    assert "FAILED" in promtool_says([judged(case, case.twin, expected(case))], tmp_path)


def test_every_alert_has_a_test_and_says_what_to_do():
    assert {case.alert for case in CASES} == set(RULES)
    for name, rule in RULES.items():
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), name
        assert rule["annotations"]["remedy"], name
