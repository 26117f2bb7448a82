"""group_data/all.py is the production profile: every point of it, as the server is told it."""

import pytest

from tasks.shared import templates
from tasks.shared.engine import compat, serving
from tasks.shared.release import releases
from tasks.shared.settings import Settings

CONNECTOR = "kv-transfer-config.kv_connector_extra_config"
TOLD = {
    "two GPUs": ("tensor-parallel-size", 2),
    "no custom all-reduce": ("disable-custom-all-reduce", True),
    "workers of one machine": ("distributed-executor-backend", "mp"),
    "no peer-to-peer": ("env.NCCL_P2P_DISABLE", "1"),
    "no symmetric memory": ("env.VLLM_ALLREDUCE_USE_SYMM_MEM", "0"),
    "no all-reduce of FlashInfer": ("env.VLLM_ALLREDUCE_USE_FLASHINFER", "0"),
    "pinned memory under WSL2": ("env.VLLM_WSL2_ENABLE_PIN_MEMORY", "1"),
    "GPUs in the order of the bus": ("env.CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
    "4-bit KV": ("kv-cache-dtype", "turboquant_4bit_nc"),
    "blocks of 1,584 tokens": ("mamba-ssm-cache-dtype", "bfloat16"),
    "no block size of our own": ("block-size", None),
    "speculation by MTP": ("speculative-config.method", "mtp"),
    "one speculated token": ("speculative-config.num_speculative_tokens", 1),
    "KV to RAM": (f"{CONNECTOR}.cpu_bytes_to_use", 2 * 1024**3),
    "RAM, then SSD": (f"{CONNECTOR}.spec_name", "TieringOffloadingSpec"),
    "SSD": (f"{CONNECTOR}.secondary_tiers.0.type", "fs"),
    "a pruned file is recomputed": ("kv-transfer-config.kv_load_failure_policy", "recompute"),
    "prefix caching": ("enable-prefix-caching", True),
    "KV found again after a restart": ("env.PYTHONHASHSEED", "0"),
    "no expandable segments": ("env.PYTORCH_ALLOC_CONF", None),
    "none by the old name": ("env.PYTORCH_CUDA_ALLOC_CONF", None),
    "vision tower on the CPU": ("cpu-offload-params", ["visual"]),
    "and room for it": ("cpu-offload-gb", 1.0),
    "utilisation derived from the card": ("gpu-memory-utilization", 0.89),
    "requests may finish": ("shutdown-timeout", 30),
    "one compiler at once": ("env.MAX_JOBS", "1"),
    "one thread in it": ("env.NVCC_THREADS", "1"),
    "loopback": ("host", "127.0.0.1"),
    "no usage statistics": ("env.VLLM_NO_USAGE_STATS", "1"),
    "not tracked": ("env.DO_NOT_TRACK", "1"),
    "nothing fetched at run time": ("env.HF_HUB_OFFLINE", "1"),
    "load can be read": ("enable-server-load-tracking", True),
    "a first start may compile": ("env.VLLM_ENGINE_READY_TIMEOUT_S", "1800"),
}


@pytest.mark.parametrize(("key", "value"), TOLD.values(), ids=TOLD.keys())
def test_the_production_profile_tells_the_server(make, key, value):
    assert compat.subjects(make()).get(key) == value


def test_it_passes_every_check_without_an_accepted_risk(make):
    settings = make()
    assert settings.accept_risks == []
    assert compat.findings(settings) == []
    assert compat.warnings(settings) == []


def test_it_is_for_two_cards_of_12_gb(make):
    settings = make()
    assert (settings.gpus, settings.gpu_memory_mib, settings.vllm_version) == (2, 12227, "0.31.0")
    assert settings.safe_utilization == 0.89


def test_it_asks_for_the_limits_that_the_article_has(make):
    assert make().kv_ssd_gb == 150
    assert make().kv_ram_gib == 2.0


def test_the_api_key_is_in_no_flag_and_no_variable(make):
    told = compat.subjects(make())
    assert not [key for key in told if "api-key" in key.lower() or "API_KEY" in key]
    assert "EnvironmentFile=/etc/vllm/secrets.env" in templates.unit(make())


def test_reasoning_and_tool_parsers_reach_the_server(make):
    config = serving.serve_config(make(reasoning_parser="qwen3", tool_call_parser="hermes"), "x")
    assert config["reasoning-parser"] == "qwen3"
    assert config["tool-call-parser"] == "hermes"
    assert config["enable-auto-tool-choice"] is True
    plain = serving.serve_config(make(), "x")
    assert not {"reasoning-parser", "tool-call-parser", "enable-auto-tool-choice"} & plain.keys()


def test_a_quantization_method_reaches_the_server_and_only_where_it_is_set(make):
    assert serving.serve_config(make(quantization="humming"), "x")["quantization"] == "humming"
    assert "quantization" not in serving.serve_config(make(), "x")


def test_the_rehearsal_differs_only_where_a_cpu_and_a_small_model_must(production, rehearsal):
    changed = {key for key in production if production[key] != rehearsal[key]}
    allowed = {
        *("accelerator", "wsl2", "gpus"),  # no GPU
        *("kv_cache_dtype", "mamba_ssm_cache_dtype", "kv_ram_gib", "kv_ssd_gb", "mtp_tokens"),
        *("model", "served_model_name", "max_model_len", "vision_tower"),  # a small model
        *("max_num_seqs", "max_num_batched_tokens"),
        *("ready_timeout_s", "shutdown_timeout_s", "restart_delay_s"),  # little to wait for
        *("gate_wait_s", "idle_wait_s"),
        *("keep_releases", "keep_generations"),  # tests go back to any of them
        *("extra_index_urls", "extra_serve_args", "extra_env"),
    }
    assert changed <= allowed
    assert Settings.model_validate(rehearsal).accept_risks == []


def test_the_release_of_the_profile_is_patched(make):
    assert [name for name in releases.wanted(make()).inputs if name.startswith("patches/")]
