"""What the server is told, derived from the settings: pure functions, nothing is asked of a host.

The flags, their defaults and what vLLM 0.31 does with them were read in its source; a comment says
where a value is not what its name suggests.
"""

import json
import math
import re
from typing import TYPE_CHECKING, Any

from tasks.shared import texts
from tasks.shared.engine import decode, prefill

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

GIB = 1024**3

RELEASES_DIR = "/opt/vllm/releases"
HOME = "/var/lib/vllm/home"
CUDA_HOME = "/usr/local/cuda-13.0"
WSL_LIBRARIES = "/usr/lib/wsl/lib"


DECIDED_FLAGS = {
    *("headless", "hf-token", "ssl-certfile", "ssl-keyfile", "uds"),
    *("api-key", "attention-config", "config", "cpu-offload-gb", "cpu-offload-params"),
    *("disable-custom-all-reduce", "distributed-executor-backend", "dtype"),
    *("enable-auto-tool-choice", "enable-prefix-caching", "enable-server-load-tracking"),
    *("gpu-memory-utilization", "host", "kv-cache-dtype", "kv-transfer-config"),
    *("kv-offloading-backend", "kv-offloading-size", "limit-mm-per-prompt"),
    *("long-prefill-token-threshold", "long-prefill-token-threshold-adaptive"),
    *("mamba-ssm-cache-dtype", "max-model-len"),
    *("max-num-batched-tokens", "max-num-seqs", "model", "port", "reasoning-parser"),
    *(
        "scheduler-cls",
        "served-model-name",
        "shutdown-timeout",
        "spec-method",
        "spec-tokens",
        "speculative-config",
    ),
    *("quantization", "tensor-parallel-size", "tool-call-parser"),
}
"""vLLM's flags that settings decide, or that would get around one: the API key, another file."""

DECIDED_VARIABLES = {
    *("CUDA_CACHE_PATH", "CUDA_DEVICE_ORDER", "CUDA_HOME", "DO_NOT_TRACK"),
    *("FLASHINFER_WORKSPACE_BASE", "GENERATION_DIGEST", "HF_HUB_OFFLINE", "HF_TOKEN", "HOME"),
    *("HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN"),
    *("LD_LIBRARY_PATH", "MAX_JOBS", "NCCL_P2P_DISABLE", "NVCC_THREADS", "PATH", "PYTHONHASHSEED"),
    *("PROMPT_SOURCE_METRICS", "PYTHONNOUSERSITE"),
    *("TORCHINDUCTOR_CACHE_DIR", "TQ_DECODE", "TRITON_CACHE_DIR"),
    *("VLLM_ALLREDUCE_USE_FLASHINFER", "VLLM_ALLREDUCE_USE_SYMM_MEM", "VLLM_API_KEY"),
    *("VLLM_CACHE_ROOT", "VLLM_ENGINE_READY_TIMEOUT_S", "VLLM_NO_USAGE_STATS"),
    *("VLLM_WSL2_ENABLE_PIN_MEMORY", "XDG_CACHE_HOME"),
}
"""Variables that settings decide, and those that hold a secret."""

_SECRET = re.compile(r"(^|_)(KEY|TOKEN|PASSWORD|PASSWD|CREDENTIALS?)(_ID)?$|SECRET", re.IGNORECASE)
"""What a variable that holds one is called; flags have dashes."""


def serve_config(settings: "Settings", kv_fingerprint: str) -> dict[str, Any]:
    """The content of serve.yaml: vLLM's own flags, without their dashes.

    Raises ValueError when `extra_serve_args` names a flag that a setting already decides.
    """
    s = settings
    config: dict[str, Any] = {
        "model": s.model_dir,
        "served-model-name": s.served_model_name,
        "host": s.listen_address,
        "port": s.port,
        "dtype": s.dtype,
        "max-model-len": s.max_model_len,
        "max-num-seqs": s.max_num_seqs,
        "max-num-batched-tokens": s.max_num_batched_tokens,
        # 0, vLLM's default, kills the process tree at once and leaks the RAM tier in /dev/shm.
        "shutdown-timeout": s.shutdown_timeout_s,
        "enable-server-load-tracking": True,
        **_parsers(s),
        **_parallelism(s),
        **_memory(s),
        **_attention(s),
        **_vision(s),
        **prefill.flags(s),
    }
    if s.mtp_tokens:
        config["speculative-config"] = {"method": "mtp", "num_speculative_tokens": s.mtp_tokens}
    if s.kv_ram_gib:
        config["enable-prefix-caching"] = True
        config["kv-transfer-config"] = kv_connector(s, kv_fingerprint)
    if s.quantization:
        config["quantization"] = s.quantization
    return _with_extras(config, s.extra_serve_args, DECIDED_FLAGS - s.freed_flags)


def _parsers(s: "Settings") -> dict[str, Any]:
    config: dict[str, Any] = {}
    if s.reasoning_parser:
        config["reasoning-parser"] = s.reasoning_parser
    if s.tool_call_parser:
        config["enable-auto-tool-choice"] = True
        config["tool-call-parser"] = s.tool_call_parser
    return config


def _parallelism(s: "Settings") -> dict[str, Any]:
    if s.gpus == 1:
        return {}
    return {
        "tensor-parallel-size": s.gpus,
        "distributed-executor-backend": "mp",
        # It works through CUDA IPC, which WSL2 does not have: the ranks would hang.
        "disable-custom-all-reduce": True,
    }


def _memory(s: "Settings") -> dict[str, Any]:
    if s.accelerator == "cpu":
        return {}
    return {"gpu-memory-utilization": s.gpu_memory_utilization or s.safe_utilization}


def _attention(s: "Settings") -> dict[str, Any]:
    config: dict[str, Any] = {}
    if s.kv_cache_dtype != "auto":
        config["kv-cache-dtype"] = s.kv_cache_dtype
    if s.kv_cache_dtype.startswith("turboquant"):
        # TurboQuant forces FlashAttention 2 anyway; saying it spares a warning at every start.
        config["attention-config"] = {"flash_attn_version": 2}
    if s.mamba_ssm_cache_dtype != "auto":
        config["mamba-ssm-cache-dtype"] = s.mamba_ssm_cache_dtype
    return config


def _vision(s: "Settings") -> dict[str, Any]:
    if s.vision_tower == "off":
        return {"limit-mm-per-prompt": {"image": 0, "video": 0}}
    if s.vision_tower == "cpu":
        # "visual" without a trailing dot: with one, nothing matches and nothing is said.
        return {"cpu-offload-gb": s.vision_tower_gib, "cpu-offload-params": ["visual"]}
    return {}


def kv_connector(settings: "Settings", kv_fingerprint: str) -> dict[str, Any]:
    """vLLM's kv-transfer-config: evicted KV goes to RAM and on to SSD."""
    extra: dict[str, Any] = {
        "spec_name": "TieringOffloadingSpec",
        "cpu_bytes_to_use": math.floor(settings.kv_ram_gib * GIB),
        "eviction_policy": "lru",
    }
    if settings.kv_ssd_gb:
        # No key for a size: vLLM 0.31 has no cap, and refuses to start on a key it does not know.
        # hostkit prunes it.
        extra["secondary_tiers"] = [
            {"type": "fs", "root_dir": f"{kv_dir(settings)}/{kv_fingerprint}"}
        ]
    return {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        # The default, "fail", ends a request whose file the pruner has just removed.
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": extra,
    }


def kv_dir(settings: "Settings") -> str:
    """The SSD tier's own folder: a folder that others use, too, is never taken over."""
    return f"{settings.kv_ssd_dir.rstrip('/')}/kv"


def environment(settings: "Settings", release: str) -> dict[str, str]:
    """The server's environment, for the release of that name; it holds no secret.

    Raises ValueError when `extra_env` names a variable that a setting already decides.
    """
    s = settings
    venv = f"{RELEASES_DIR}/{release}/venv"
    cache = f"{RELEASES_DIR}/{release}/cache"
    path = [f"{venv}/bin", "/usr/local/bin", "/usr/bin", "/bin"]
    env = {
        "HOME": HOME,
        "PYTHONHASHSEED": str(s.python_hash_seed),
        "PYTHONNOUSERSITE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        **_caches(cache),
        "MAX_JOBS": str(s.max_jobs),
        "VLLM_ENGINE_READY_TIMEOUT_S": str(s.ready_timeout_s),
    }
    if s.accelerator == "cuda":
        path.insert(1, f"{CUDA_HOME}/bin")
        env |= {
            "CUDA_HOME": CUDA_HOME,
            "CUDA_CACHE_PATH": f"{cache}/cuda",
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "NVCC_THREADS": "1",
        }
    if s.wsl2:
        path.append(WSL_LIBRARIES)
        env |= {
            "LD_LIBRARY_PATH": WSL_LIBRARIES,
            # Without it vLLM's model runner refuses to start under WSL2: "UVA is not available".
            "VLLM_WSL2_ENABLE_PIN_MEMORY": "1",
        }
    if s.gpus > 1:
        env |= {
            "NCCL_P2P_DISABLE": "1",
            "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",
            "VLLM_ALLREDUCE_USE_FLASHINFER": "0",
        }
    env["PATH"] = ":".join(path)
    env |= decode.environment(s)
    if not s.prompt_source_metrics:
        env["PROMPT_SOURCE_METRICS"] = "0"
    return _with_extras(env, s.extra_env, DECIDED_VARIABLES)


def _caches(cache: str) -> dict[str, str]:
    """Each release compiles into its own folder: a cache of another build poisons every start."""
    return {
        "VLLM_CACHE_ROOT": f"{cache}/vllm",
        "XDG_CACHE_HOME": f"{cache}/xdg",
        "TRITON_CACHE_DIR": f"{cache}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
        "FLASHINFER_WORKSPACE_BASE": cache,
    }


def _with_extras(derived: dict[str, Any], extra: dict[str, Any], taken: set[str]) -> dict[str, Any]:
    # vLLM takes --no-… for the same flag, and the last one wins.
    refused = sorted(name for name in extra if name.removeprefix("no-") in taken)
    if refused:
        raise ValueError(
            f"extra_serve_args and extra_env must not name {', '.join(refused)}: another setting "
            "decides that"
        )
    secrets = sorted(name for name, value in extra.items() if _is_secret(name, value))
    if secrets:
        raise ValueError(
            f"{', '.join(secrets)}: extra_serve_args and extra_env must hold no secret, and no "
            "address with a password: diffs, and files that everybody on the host may read, show "
            "them"
        )
    return derived | extra


def _is_secret(name: str, value: Any) -> bool:
    shown = json.dumps(value, default=str)
    return bool(_SECRET.search(name)) or texts.without_passwords(shown) != shown
