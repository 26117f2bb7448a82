"""Each fault that a running host can have, how the doctor names it, and the twin without it."""

import pytest

from tasks.shared import health
from tasks.shared.facts.doctor import DoctorFact, Report
from tasks.shared.health import tiers
from tasks.shared.host_checks import findings
from tests.unit.reports import COMMAND, NOW, REMOVED, SERVE, changed, wanting

SEVERAL = ("SSD tier", "secrets")
"""Of these one thing may be in order beside another that is not."""


def judged(report, wanted=None):
    """What is not in order, as (level, what)."""
    found = health.judge(report, wanted or wanting())
    return [each for each in found if each.level != "ok"]


def everything(finding):
    return " ".join((finding.found, finding.wanted, finding.remedy))


def unit(name, **values):
    return {"units": {name: values}}


FAILURE = {
    "number": 4,
    "at": NOW,
    "class": "gpu-memory",
    "what": "the GPU's memory did not suffice",
    "remedy": "lower gpu_memory_utilization",
    "cause": "CUDA out of memory",
    "folder": "/var/lib/vllm/health/failures/4",
    "recovered": False,
    "count": 3,
    "changed": {},
}
NEVER_SERVES = [
    'vllm:kv_offload_store_bytes_total{engine="0"} 8e+09',
    'vllm:external_prefix_cache_queries_total{engine="0"} 250000.0',
    'vllm:external_prefix_cache_hits_total{engine="0"} 0.0',
]
FOUND_NOT_LOADED = [
    'vllm:kv_offload_store_bytes_total{engine="0"} 8e+09',
    'vllm:external_prefix_cache_queries_total{engine="0"} 20000.0',
    'vllm:external_prefix_cache_hits_total{engine="0"} 1584.0',
]
SSD_UNREAD = [
    'vllm:kv_offload_tiering_chunk_hits_total{engine="0",tier="0:primary"} 2.0',
    'vllm:kv_offload_tiering_read_bytes_total{engine="0",tier="0:primary"} 5.0',
    'vllm:kv_offload_tiering_chunk_hits_total{engine="0",tier="1:fs"} 9.0',
]
NOT_PRUNED = {"figures": dict.fromkeys(tiers.FIGURES, REMOVED)}

PROBLEMS = [
    # name, changes to the report, to what is wanted, what is named, words of the message
    ("a stopped server", {"state": {"active": "inactive", "sub": "dead", "running": None}}, {},
     "server", ["inactive (dead)", "deploy.py starts"]),
    ("a server that does not answer", {"state": {"answering": False}}, {}, "server",
     ["does not answer", "tasks/verify.py"]),
    ("another current generation", {"state": {"current": 2}}, {}, "current",
     ["generation 3 runs", "of 2", "tasks/restart_vllm.py"]),
    ("a current that names nothing", {"state": {"current": None}}, {}, "current", ["deploy.py"]),
    ("a run that was killed", {"left_lock": "me@x is restarting generation 3 since noon"}, {},
     "a run", ["me@x", "vllm-settle"]),
    ("an edited unit", {"state": {"unit_in_force": False}}, {}, "unit", ["deploy.py puts it back"]),
    ("a unit that systemd has not read again", unit("vllm.service", needs_reload="yes"), {},
     "unit", ["deploy.py"]),
    ("a drop-in", unit("vllm.service", drop_ins="/etc/systemd/system/vllm.service.d/x.conf"), {},
     "unit", ["x.conf", "systemctl revert vllm.service"]),
    ("a disabled unit", unit("vllm.service", enabled="disabled"), {}, "unit", ["is disabled"]),
    ("a hang", {"hang_told": True}, {}, "progress", ["force=yes"]),
    ("no start left", {"starts": {"ago_s": [90, 50, 10]}}, {}, "starts",
     ["3 of 3", "2 of them by systemd", "stays down"]),
    (
        "a limit that is never reached",
        {"starts": {"unreachable": "it took 900 s to fail; set slowest_failing_start_s = 900"}},
        {}, "start limit", ["900 s to fail", "set slowest_failing_start_s = 900, deploy.py"],
    ),
    ("a failure", {"state": {"failure": FAILURE}}, {}, "failures",
     ["3 times", "gpu-memory", "CUDA out of memory", "lower gpu_memory_utilization", "--seen"]),
    ("a damaged release", {"release": {"damage": "RECORD is not as it was installed"}}, {},
     "release 0.31.0-0123456789ab", ["RECORD", "rm -r /opt/vllm/releases/0.31.0-0123456789ab"]),
    ("an edited module", {"release": {"altered": ["vllm/a.py", "b", "c", "d"]}}, {},
     "release 0.31.0-0123456789ab", ["vllm/a.py", "and 1 more", "files/patches"]),
    ("a replaced library", {"release": {"gone": ["torch/lib/libtorch.so"]}}, {},
     "release 0.31.0-0123456789ab", ["torch/lib/libtorch.so runs in the server", "replaced"]),
    ("a library of one's own", {"release": {"unlisted": ["x/own.so"]}}, {},
     "release 0.31.0-0123456789ab", ["x/own.so runs in the server", "of no package"]),
    ("another version", {"version": "0.30.0"}, {}, "version", ["0.30.0", "0.31.0+patched"]),
    ("a fall-back", {"log": {"unproven": ["nothing shows that MTP drafts"]}}, {}, "start",
     ["MTP drafts", "journalctl"]),
    ("a smaller pool", {"log": {"problems": ["the KV pool is 1: free it"]}}, {}, "start",
     ["the KV pool is 1"]),
    ("a truncated shard", {"model": {"problems": ["a.safetensors has 1 bytes"]}}, {}, "model",
     ["a.safetensors has 1 bytes", "/var/lib/vllm/models/m"]),
    ("other weights", {"model": {"same": False}}, {}, "model", ["next start is refused"]),
    ("an edited serve.yaml", {"edited": ["serve.yaml"]}, {}, "generation 3",
     ["serve.yaml was edited", "settings"]),
    ("another program", {"process": {"command": "/usr/bin/vllm serve m"}}, {}, "command line",
     ["process 7 is /usr/bin/vllm serve m"]),
    ("a flag more", {"process": {"command": f"{COMMAND} {SERVE} --port 1"}}, {}, "command line",
     ["process 7"]),
    ("another value", {"process": {"environment": [["MAX_JOBS", "8", "1"]]}}, {}, "environment",
     ["MAX_JOBS is '8'", "'1'"]),
    ("a value that is missing", {"process": {"environment": [["MAX_JOBS", None, "1"]]}}, {},
     "environment", ["MAX_JOBS is not set"]),
    ("a variable more", {"process": {"environment": [["NCCL_DEBUG", None, None]]}}, {},
     "environment", ["NCCL_DEBUG is set"]),
    ("a setting that is not deployed", {}, {"digest": "four", "changes": ("flags: - a: 1",)},
     "settings", ["flags: - a: 1", "deploy.py --dry --diff"]),
    ("a generation that waits", {}, {"digest": "two", "changes": ("flags: - a: 1",)}, "settings",
     ["2 is staged", "tasks/restart_vllm.py"]),
    ("another key's generation", {}, {"digest": "four"}, "settings", ["API key or the model"]),
    ("another hostkit", {"hostkit": "old"}, {}, "hostkit", ["old is installed", "kit"]),
    ("no key", {"files": {"/etc/vllm/secrets.env": REMOVED}}, {}, "API key", ["there is no"]),
    ("another key", {}, {"key_matches": False}, "API key", ["holds another", "rotate_api_key"]),
    ("a key for all", {"files": {"/etc/vllm/secrets.env": {"mode": "644"}}},
     {"key_matches": False}, "secrets", ["mode 644", "chmod 600 /etc/vllm/secrets.env"]),
    ("a token of the service's", {"files": {"/etc/vllm/hf_token":
     {"owner": "vllm", "mode": "600", "sha256": ""}}}, {}, "secrets", ["vllm's", "chown root:"]),
    ("other limits", {}, {"limits": "others"}, "SSD tier's limits", ["says something else"]),
    ("no limits", {"files": {"/etc/vllm/kv-tier.json": REMOVED}}, {}, "SSD tier's limits",
     ["is not there"]),
    ("a guard that stands still", unit("vllm-guard.service", active="failed"), {},
     "vllm-guard.service", ["is failed", "deploy.py"]),
    ("a timer that stands still", unit("vllm-kv-prune.timer", active="inactive"), {},
     "vllm-kv-prune.timer", ["is inactive"]),
    ("a timer that is disabled", unit("vllm-watch.timer", enabled="disabled"), {},
     "vllm-watch.timer", ["is disabled"]),
    ("an edited unit of ours", unit("vllm-watch.service", sha256="x"), {}, "vllm-watch.service",
     ["was edited"]),
    ("a drop-in for the guard", unit("vllm-guard.service", drop_ins="/etc/vllm-guard.service.d/x"),
     {}, "vllm-guard.service", ["drop-ins"]),
    ("a unit that is gone", unit("vllm-settle.service", sha256=""), {}, "vllm-settle.service",
     ["is not there"]),
    ("a prune that fails", unit("vllm-kv-prune.service", result="exit-code"), {},
     "vllm-kv-prune.service", ["failed last time", "journalctl -u vllm-kv-prune.service"]),
    ("a unit too many", {}, {"units": {"vllm-watch.timer": None}}, "vllm-watch.timer",
     ["is there"]),
    ("a tier that only stores", {"metrics": NEVER_SERVES}, {}, "KV tiers",
     ["8.0 GB stored, 0.0 GB loaded", "0 of 250,000 tokens", "kv_ram_gib = 0"]),
    ("a tier whose hits are not loaded", {"metrics": FOUND_NOT_LOADED}, {}, "KV tiers",
     ["1,584 of 20,000", "none came back"]),
    ("an SSD tier that is not read", {"metrics": SSD_UNREAD}, {}, "SSD tier",
     ["9 chunks", "block I/O failed"]),
    ("a tier that nobody prunes",
     {"tier": {"figures": {"vllm_kv_tier_last_prune_timestamp_seconds": NOW - 7200}}}, {},
     "SSD tier", ["120 minutes ago", "every 15 minutes", "vllm-kv-prune.timer"]),
    ("figures that are damaged", {"tier": {"figures": {"vllm_kv_tier_bytes": REMOVED}}}, {},
     "SSD tier", ["lack vllm_kv_tier_bytes", "vllm-kv-prune.service"]),
    ("a tier above its quota", {"tier": {"figures": {"vllm_kv_tier_bytes": 160e9}}}, {},
     "SSD tier", ["160.0 of 150 GB"]),
    ("a full disk", {"tier": {"figures": {"vllm_kv_tier_free_bytes": 5e9}}}, {}, "SSD tier",
     ["5.0 GB are free", "20 GB"]),
    ("a leftover", {"shm": ["psm_1 (9 bytes)"]}, {}, "/dev/shm", ["psm_1", "hostkit sweep"]),
    ("an orphan", {"orphans": ["81 (VLLM::Worker_TP0)"]}, {}, "processes",
     ["81 (VLLM::Worker_TP0)", "sudo kill 81"]),
    ("a question without an answer", {"errors": {"release": "manifest.json: not JSON"}}, {},
     "question 'release'", ["manifest.json: not JSON"]),
]  # fmt: skip

WARNINGS = [
    ("a start by systemd", {"starts": {"ago_s": [400, 10]}}, "starts", ["2 of 3"]),
    ("a failure that is over", {"state": {"failure": FAILURE | {"recovered": True}}}, "failures",
     ["served since"]),
    ("another driver", {"versions": {"driver": "600.2"}}, "GPU driver", ["600.2; 581.80 at"]),
    ("another WSL", {"versions": {"wsl": "2.8.0.0"}}, "WSL", ["2.8.0.0", "restart_vllm"]),
    ("another kernel", {"versions": {"kernel": "6.18.1"}}, "kernel", ["6.18.1; 6.6.114.1"]),
    ("a slower start", {"log": {"warnings": ["the attention backend is B"]}}, "start", ["is B"]),
    ("a run at work", {"state": {"lock": "me@x is restarting"}}, "a run", ["me@x is restarting"]),
    ("loads that failed", {"metrics": [
        'vllm:kv_offload_tiering_promotion_job_failures_total{tier="1:fs"} 3.0']}, "SSD tier",
     ["3 loads from SSD failed"]),
]  # fmt: skip

PASSES = [
    ("as it is", {}, {}),
    ("starts long ago", {"starts": {"ago_s": [90000, 80000, 70000]}}, {}),
    ("a burst of one", {"starts": {"burst": 1, "ago_s": [10]}}, {}),
    ("a drop-in for all services", unit("vllm.service", drop_ins="/run/x/service.d/zzz.conf"), {}),
    ("no tier", {"tier": NOT_PRUNED, "files": {"/etc/vllm/kv-tier.json": REMOVED}},
     {"limits": None}),
    ("a tier that was not asked for much yet", {"metrics": NEVER_SERVES[:1]}, {}),
    ("a tier that was not pruned yet", {"tier": NOT_PRUNED}, {}),
    ("a journal that lost the start", {"log": {"complete": False}}, {}),
    ("no watch", unit("vllm-watch.timer", sha256="", active="", enabled=""),
     {"units": {"vllm-watch.timer": None}}),
    ("no good start on record", {"good": {"versions": None}}, {}),
    ("weights that were never noted", {"model": {"same": True}}, {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "other", "what", "words"), [c[1:] for c in PROBLEMS], ids=[c[0] for c in PROBLEMS]
)
def test_a_fault_is_named_with_its_remedy(changes, other, what, words):
    found = health.judge(changed(**changes), wanting(**other))
    (finding,) = [each for each in found if each.level != "ok"]
    assert (finding.level, finding.what) == ("problem", what)
    assert [word for word in words if word not in everything(finding)] == []
    assert finding.remedy
    if what not in SEVERAL:
        assert what not in [each.what for each in found if each.level == "ok"]


@pytest.mark.parametrize(
    ("changes", "what", "words"), [c[1:] for c in WARNINGS], ids=[c[0] for c in WARNINGS]
)
def test_what_may_become_a_fault_is_warned_of(changes, what, words):
    (finding,) = judged(changed(**changes))
    assert (finding.level, finding.what) == ("warning", what)
    assert [word for word in words if word not in everything(finding)] == []


@pytest.mark.parametrize(("changes", "other"), [c[1:] for c in PASSES], ids=[c[0] for c in PASSES])
def test_a_healthy_host_has_no_finding(changes, other):
    assert judged(changed(**changes), wanting(**other)) == []


def test_a_healthy_host_is_told_all_that_was_looked_at():
    found = health.judge(changed(), wanting())
    assert {each.what for each in found} == {
        *("server", "unit", "failures", "starts", "kernel", "WSL", "GPU driver"),
        *("release 0.31.0-0123456789ab", "patches", "version", "start", "model"),
        *("generation 3", "command line", "environment", "settings", "hostkit"),
        *("vllm-guard.service", "vllm-settle.service", "vllm-watch.service", "vllm-watch.timer"),
        *("vllm-kv-prune.service", "vllm-kv-prune.timer", "KV tiers", "SSD tier"),
        *("/dev/shm", "processes", "secrets"),
    }
    told = {each.what: each.found for each in found}
    assert told["release 0.31.0-0123456789ab"] == "as it was built, 412 loaded modules hashed"
    assert told["KV tiers"].startswith("8.0 GB stored, 2.0 GB loaded")


def test_a_drop_in_that_a_run_at_work_made_is_no_fault():
    drop_in = unit("vllm.service", drop_ins="/run/systemd/system/vllm.service.d/watched.conf")
    found = judged(changed(state={"lock": "me is restarting"}, **drop_in))
    assert [(each.level, each.what) for each in found] == [("warning", "a run")]


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ([], "hostkit is not installed yet"),
        (["hostkit: error: invalid choice: 'doctor'", "", "exit status 2"], "invalid choice"),
        (['{"generation": "x"}', "exit status 0"], "does not fit: generation"),
    ],
)
def test_a_hostkit_that_cannot_tell_is_a_problem_in_itself(output, found):
    (finding,) = judged(DoctorFact().process(output))
    assert (finding.level, finding.what) == ("problem", "hostkit")
    assert found in finding.found
    assert finding.remedy == "deploy.py installs it"


def test_nothing_is_claimed_of_what_was_not_found_out():
    found = health.judge(Report(errors={"state": "x"}), wanting(units={}))
    assert [each.what for each in found] == ["question 'state'"]


def test_what_a_deploy_would_refuse_counts_as_a_problem():
    refused = findings.refusal("port", "taken", "free", "end it")
    fine = findings.ok("root", "yes")
    assert [each.level for each in health.as_problems([refused, fine])] == ["problem", "ok"]
    lines = [text for text, _ in findings.table(health.as_problems([refused]), worst="problem")]
    assert lines[-1].endswith("0 ok, 0 warnings, 1 problem")
    assert "problem  port" in lines[0]
