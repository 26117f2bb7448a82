"""The compatibility manifest: every entry refuses what it says, and lets its twin pass."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from tasks.shared.engine import compat, serving
from tasks.shared.release import patches, releases
from tasks.shared.settings import Settings, describe

VERSION = "0.31.0"
RULES = compat.manifest(VERSION).rules
FLAT_OUT = [rule for rule in RULES.values() if not rule.in_tree and not rule.without_patches]
ACCEPTABLE = [rule for rule in FLAT_OUT if rule.override]


def ids(rule):
    return rule.name


def mistakes(values):
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(values)
    return describe("box", caught.value)


def names(found):
    return {each.rule.name for each in found}


@pytest.mark.parametrize("rule", FLAT_OUT, ids=ids)
def test_each_entry_refuses_its_case_and_names_reason_and_source(production, rule):
    (line,) = mistakes(production | rule.refused)
    assert line.startswith("  box: ")
    fixed = re.split(r"\{[^}]*\}", rule.reason)
    assert all(part in line for part in fixed)
    assert rule.source in line
    assert rule.needs in line


@pytest.mark.parametrize("rule", RULES.values(), ids=ids)
def test_each_entry_lets_its_twin_pass(production, rule):
    settings = Settings.model_validate(production | rule.passes)
    assert rule.name not in names(compat.findings(settings))


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.without_patches], ids=ids)
def test_what_needs_a_patch_is_refused_without_it(production, make, rule):
    base = Settings.model_validate(production)
    bare = base.model_copy(update=rule.refused)
    assert rule.name in names(compat.findings(bare, stock=True))
    assert rule.name not in names(compat.findings(base))


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.in_tree], ids=ids)
def test_what_is_cured_in_this_version_is_known_for_others(production, rule):
    settings = Settings.model_validate(production | rule.refused)
    assert compat.breaks(rule, compat.subjects(settings))
    assert rule.name not in names(compat.findings(settings))
    assert not compat.breaks(
        rule, compat.subjects(Settings.model_validate(production | rule.passes))
    )


@pytest.mark.parametrize("rule", ACCEPTABLE, ids=ids)
def test_a_risk_is_accepted_by_name_alone_and_loudly(production, monkeypatch, rule):
    others = [name for name in ("fp8-kv", "mtp-above-1") if name != rule.name]
    (line,) = mistakes(production | rule.refused | {"accept_risks": others})
    assert f'accept_risks = ["{rule.name}"]' in line
    # Stands for the pinned patch that nvfp4 needs besides.
    monkeypatch.setattr(patches, "texts", lambda settings: {"0001": "+    # an nvfp4 backend"})
    settings = Settings.model_validate(production | rule.refused | {"accept_risks": [rule.name]})
    assert any(f"ACCEPTED RISK {rule.name}: " in line for line in compat.warnings(settings))


def test_a_variable_of_a_kernel_passes_with_the_patch_that_reads_it(make, monkeypatch):
    reads = '+    per_sm = os.environ.get("TQ_SIMT_CTAS_PER_SM")'
    monkeypatch.setattr(patches, "texts", lambda settings: {"0001": reads})
    settings = make(extra_env={"TQ_SIMT_CTAS_PER_SM": "2"})
    assert serving.environment(settings, "r")["TQ_SIMT_CTAS_PER_SM"] == "2"


@pytest.mark.parametrize(
    ("risks", "reason"),
    [
        (["fp8"], "did you mean fp8-kv?"),
        (["2-bit-kv"], "turboquant_3bit_nc is its lowest"),
        (["kvarn"], "more memory"),
    ],
)
def test_what_has_no_switch_cannot_be_accepted(production, risks, reason):
    (line,) = mistakes(production | {"accept_risks": risks})
    assert "accept_risks" in line
    assert reason in line


def test_an_accepted_lmcache_reaches_the_server(make):
    connector = {"kv_connector": "LMCacheMPConnector", "kv_role": "kv_both"}
    connector["kv_load_failure_policy"] = "recompute"
    settings = make(
        kv_ram_gib=0,
        kv_ssd_gb=0,
        accept_risks=["lmcache"],
        extra_serve_args={"kv-transfer-config": connector},
    )
    assert serving.serve_config(settings, "x")["kv-transfer-config"] == connector


def test_an_accepted_lmcache_does_not_replace_the_offload_that_settings_decide(production):
    changes = {"accept_risks": ["lmcache"], "extra_serve_args": {"kv-offloading-backend": "native"}}
    (line,) = mistakes(production | changes)
    assert "another setting decides that" in line


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"enforce-eagre": True}, "has no flag enforce-eagre: did you mean enforce-eager?"),
        ({"max-num-se": 8}, "has no flag max-num-se"),  # argparse would take it for another
        ({"tp": 4}, "write tp as tensor-parallel-size"),
        ({"device-memory-utilization": 0.95}, "write device-memory-utilization as gpu-memory"),
        ({"async-scheduling": True, "no-async-scheduling": True}, "are the same flag"),
        ({"no-port": 1}, "has no flag no-port"),
    ],
)
def test_another_way_to_write_a_flag_does_not_get_past(production, extra, reason):
    (line,) = mistakes(production | {"extra_serve_args": extra})
    assert reason in line


def test_the_full_name_of_a_flag_passes(make):
    make(extra_serve_args={"enforce-eager": True, "no-async-scheduling": True})


def test_a_misspelt_variable_of_vllm_is_answered_with_the_nearest(production):
    (line,) = mistakes(production | {"extra_env": {"VLLM_LOGING_LEVEL": "DEBUG"}})
    assert "did you mean VLLM_LOGGING_LEVEL?" in line
    Settings.model_validate(production | {"extra_env": {"VLLM_LOGGING_LEVEL": "DEBUG"}})


def test_every_flag_that_a_setting_decides_is_one_of_vllm():
    known = compat.manifest(VERSION).flags
    ours = {flag for flag in serving.DECIDED_FLAGS if known.get(flag) != flag}
    assert ours == set()


def test_every_variable_that_we_set_for_vllm_is_one_of_its(make):
    ours = serving.environment(make(), "r")
    known = compat.manifest(VERSION).variables
    assert {name for name in ours if name.startswith("VLLM_") and name not in known} == set()


def test_several_findings_are_said_at_once(production):
    (line,) = mistakes(production | {"kv_cache_dtype": "fp8", "mtp_tokens": 3})
    assert "fp8-kv" in line
    assert "mtp-above-1" in line


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"mtp_tokens": 3}, "mtp_tokens = 3: "),
        (
            {"extra_env": {"NCCL_SHM_DISABLE": "1"}},
            "extra_env: NCCL_SHM_DISABLE = '1': ",
        ),
        (
            {"extra_env": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
            "extra_env: expandable_segments: ",
        ),
        (
            {"extra_serve_args": {"max-num-active-seqs": 99}},
            "extra_serve_args: max-num-active-seqs = 99: ",
        ),
    ],
)
def test_a_refusal_begins_with_the_setting_and_the_value_that_it_is_about(
    production, changes, told
):
    (line,) = mistakes(production | changes)
    assert line.startswith(f"  box: {told}")


def test_every_version_with_locks_has_a_manifest():
    assert set(releases.versions()) <= set(compat.versions())


def test_a_version_without_a_manifest_is_refused_and_its_twin_passes(production, monkeypatch):
    monkeypatch.setattr(compat, "versions", lambda: ["0.30.0"])
    (line,) = mistakes(production)
    assert line == (
        "  box: vllm_version = '0.31.0': must be one of 0.30.0; this one lacks "
        "files/compat/vllm-0.31.0: make new-version V=0.31.0"
    )
    monkeypatch.undo()
    Settings.model_validate(production)


def test_a_version_that_nothing_is_known_of_lacks_all_of_it(production):
    (line,) = mistakes(production | {"vllm_version": "0.31.7"})
    lacking = "files/locks/vllm-0.31.7-*, files/patches/vllm-0.31.7/series.toml, files/compat"
    assert lacking in line


def test_a_pair_that_needs_a_fix_is_a_rule_where_the_fix_is_not_established():
    assert not compat.manifest("0.30.0").rules["mtp-with-tiering"].in_tree
    assert compat.manifest("0.32.0").rules["mtp-with-tiering"].in_tree


@pytest.mark.parametrize("entry", compat.manifest(VERSION).asked, ids=lambda each: each.what)
def test_what_only_vllm_can_tell_names_a_test_that_exists(entry):
    file, _, name = entry.test.partition("::")
    assert f"def {name}(" in Path(file).read_text(encoding="utf-8")
    assert entry.by
    assert entry.source


def test_every_rule_says_something_in_plain_words():
    for rule in RULES.values():
        assert rule.vllm in ("refuses", "warns", "accepts")
        assert len(rule.reason) > 15
        assert rule.source
        assert rule.override or not rule.frees
