"""What the server is told, for given settings."""

import pytest
import yaml
from pydantic import ValidationError

from tasks.shared import templates
from tasks.shared.engine import formats, serving
from tasks.shared.settings import describe


def test_the_production_profile_becomes_the_flags_of_the_article(make):
    config = serving.serve_config(make(), "f1ngerpr1nt")
    assert config["tensor-parallel-size"] == 2
    assert config["disable-custom-all-reduce"] is True
    assert config["kv-cache-dtype"] == "turboquant_4bit_nc"
    assert config["mamba-ssm-cache-dtype"] == "bfloat16"
    assert config["gpu-memory-utilization"] == 0.89
    assert config["speculative-config"] == {"method": "mtp", "num_speculative_tokens": 1}
    assert config["cpu-offload-params"] == ["visual"]
    assert config["shutdown-timeout"] == 30
    connector = config["kv-transfer-config"]
    assert connector["kv_connector"] == "OffloadingConnector"
    assert connector["kv_load_failure_policy"] == "recompute"
    extra = connector["kv_connector_extra_config"]
    assert extra["cpu_bytes_to_use"] == 2 * 1024**3
    assert extra["secondary_tiers"] == [{"type": "fs", "root_dir": "/var/lib/vllm/kv/f1ngerpr1nt"}]


@pytest.mark.parametrize(
    ("changes", "absent"),
    [
        ({"mtp_tokens": 0}, "speculative-config"),
        ({"kv_ram_gib": 0, "kv_ssd_gb": 0}, "kv-transfer-config"),
        ({"gpus": 1}, "tensor-parallel-size"),
        ({"gpus": 1}, "disable-custom-all-reduce"),
        ({"vision_tower": "gpu"}, "cpu-offload-gb"),
        ({"vision_tower": "none"}, "limit-mm-per-prompt"),
        ({"kv_cache_dtype": "auto"}, "attention-config"),
        ({"accelerator": "cpu"}, "gpu-memory-utilization"),
        ({"prefill_order": "upstream"}, "scheduler-cls"),
        ({"prefill_order": "upstream"}, "long-prefill-token-threshold"),
    ],
)
def test_a_feature_that_is_off_leaves_no_flag(make, changes, absent):
    assert absent not in serving.serve_config(make(**changes), "x")


def test_ram_only_offload_has_no_second_tier(make):
    connector = serving.kv_connector(make(kv_ssd_gb=0), "x")
    assert "secondary_tiers" not in connector["kv_connector_extra_config"]


def test_wsl2_needs_pinned_memory_and_the_driver_of_windows(make):
    env = serving.environment(make(), "r")
    assert env["VLLM_WSL2_ENABLE_PIN_MEMORY"] == "1"
    assert "/usr/lib/wsl/lib" in env["PATH"].split(":")
    assert "VLLM_WSL2_ENABLE_PIN_MEMORY" not in serving.environment(make(wsl2=False), "r")


def test_two_gpus_talk_through_shared_memory_only(make):
    env = serving.environment(make(), "r")
    assert env["NCCL_P2P_DISABLE"] == "1"
    assert env["VLLM_ALLREDUCE_USE_SYMM_MEM"] == "0"
    assert "NCCL_P2P_DISABLE" not in serving.environment(make(gpus=1), "r")


def test_expandable_segments_are_never_set(make):
    assert not [k for k in serving.environment(make(), "r") if "ALLOC_CONF" in k]


def test_two_releases_compile_into_two_folders(make):
    one, two = (serving.environment(make(), name) for name in ("one", "two"))
    caches = [key for key in one if "CACHE" in key or key == "FLASHINFER_WORKSPACE_BASE"]
    assert len(caches) >= 6
    assert all(one[key] != two[key] for key in caches)


VARIANTS = [
    {},
    {"accelerator": "cpu", "wsl2": False, "gpus": 1},
    {"vision_tower": "off", "reasoning_parser": "qwen3", "tool_call_parser": "qwen3_coder"},
    {"prefill_order": "threshold", "long_prefill_token_threshold": 512},
]


@pytest.mark.parametrize("changes", VARIANTS)
def test_what_a_setting_decides_cannot_be_set_past_it(make, changes):
    """Also where it is off just now: a flag that appears later must not appear twice."""
    settings = make(**changes)
    assert serving.serve_config(settings, "x").keys() <= serving.DECIDED_FLAGS
    assert serving.environment(settings, "r").keys() <= serving.DECIDED_VARIABLES


VALUES = {
    "nested": {"a": [1, None, [2, {"b": "c"}], {}], "b": "ä: #'\" - x", "empty": {}, "none": None},
    "list": [
        "no",
        "on",
        "1",
        "~",
        "- a",
        "a: b",
        "",
        " lead",
        "multi\nline",
        "\x85\u2028\ufeff\x7f😀",
    ],
    "floats": [1e-05, 0.1, 1e22, -2.5e-300, 3.0],
    "bool": True,
    "key": {"no": 1, "a b: c": 2, "1": 3},
}


def test_yaml_reads_back_as_what_was_meant(make):
    config = serving.serve_config(make(), "x") | VALUES
    assert yaml.safe_load(formats.serve_yaml(config)) == config


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", {"a": [object()]}])
def test_a_value_that_cannot_be_written_is_a_mistake(make, value):
    with pytest.raises(ValueError, match="vLLM"):
        make(extra_serve_args={"additional-config": value})


def test_an_ssd_tier_elsewhere_has_a_folder_of_its_own_and_waits_for_its_disk(make):
    unit = templates.unit(make(kv_ssd_dir="/mnt/ssd"))
    assert " /mnt/ssd/kv\n" in unit
    assert "RequiresMountsFor=/var/lib/vllm/models/ternary-27b /mnt/ssd/kv\n" in unit
    assert "/mnt/ssd" not in templates.unit(make(kv_ssd_dir="/mnt/ssd", kv_ssd_gb=0))


def test_the_devices_of_wsl2_are_all_that_is_let_through(make):
    assert "DeviceAllow=/dev/dxg rw\n" in templates.unit(make())
    assert "DevicePolicy" not in templates.unit(make(wsl2=False))


@pytest.mark.parametrize(
    "change",
    [
        {"extra_env": {"MY_API_KEY": "x"}},
        {"extra_env": {"S3_ACCESS_KEY_ID": "x"}},
        {"extra_env": {"S3_SECRET_ACCESS_KEY": "x"}},
        {"extra_env": {"db_password": "x"}},
        {"extra_env": {"OTLP": "grpc://me:canary@collector:4317"}},
        {"extra_serve_args": {"otlp-traces-endpoint": "http://me:canary@collector"}},
        {"extra_serve_args": {"hf-overrides": {"a": ["redis://:canary@cache/0"]}}},
    ],
)
def test_a_secret_that_diffs_would_show_is_refused_and_not_shown(make, change):
    with pytest.raises(ValidationError, match="must hold no secret") as refused:
        make(**change)
    assert "canary" not in "\n".join(describe("box", refused.value))


def test_what_only_sounds_like_a_secret_is_none(make):
    make(
        extra_env={"VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD": "256", "KEYBOARD": "me@home"},
        extra_serve_args={"hf-overrides": {"image_token_id": 7}},
    )
