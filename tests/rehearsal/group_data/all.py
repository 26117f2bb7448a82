"""What a rehearsal host changes of the production profile: no GPU, a small model, no SSD tier.

What differs from host to host (ports, `model`, `api_key_file`, `find_links`) is in connection.py
beside this folder.
"""

accelerator = "cpu"
wsl2 = False
gpus = 1

served_model_name = "smollm2-135m"
max_model_len = 2048
dtype = "bfloat16"
vision_tower = "none"

# vLLM offloads KV, quantises it and speculates only where there is a GPU.
kv_cache_dtype = "auto"
mamba_ssm_cache_dtype = "auto"
kv_ram_gib = 0.0
kv_ssd_gb = 0
mtp_tokens = 0

max_num_seqs = 4
max_num_batched_tokens = 256  # so that a long prompt takes several steps

ready_timeout_s = 300
shutdown_timeout_s = 5
restart_delay_s = 2
idle_wait_s = 0
# Tests make many, and count what a deploy changes.
keep_generations = 1000
keep_releases = 1000
gate_wait_s = 5

# The CPU build of torch is on PyTorch's own index only.
extra_index_urls = ["https://download.pytorch.org/whl/cpu"]

extra_serve_args = {"enforce-eager": True}
extra_env = {"VLLM_CPU_KVCACHE_SPACE": "1"}
