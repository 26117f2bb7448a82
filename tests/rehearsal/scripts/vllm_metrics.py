"""Runs in a release's environment: prints each name under which its vLLM can show a metric.

vLLM's own logger is made, with all that the production profile uses: offloading with tiers, MTP.
"""

import contextlib
import os
import sys
from types import SimpleNamespace

import prometheus_client
from vllm.config import KVTransferConfig, VllmConfig
from vllm.v1.metrics.loggers import PrometheusStatLogger

SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}

config = VllmConfig()
config.model_config = SimpleNamespace(
    served_model_name="x", max_model_len=4096, is_diffusion=False, is_multimodal_model=True
)
config.speculative_config = SimpleNamespace(num_speculative_tokens=1)
config.kv_transfer_config = KVTransferConfig(
    kv_connector="OffloadingConnector",
    kv_role="kv_both",
    kv_connector_extra_config={
        "spec_name": "TieringOffloadingSpec",
        "cpu_bytes_to_use": 1 << 30,
        "secondary_tiers": [{"type": "fs", "root_dir": "/nowhere"}],
    },
)
# Its log goes to the standard output.
with contextlib.redirect_stdout(sys.stderr):
    PrometheusStatLogger(config)
for metric in prometheus_client.REGISTRY.collect():
    if metric.name.startswith("vllm:"):
        print(*(f"{metric.name}{suffix}" for suffix in SUFFIXES[metric.type]), sep="\n")
sys.stdout.flush()
os._exit(0)
