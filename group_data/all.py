"""Every value that an operator may change; here: the production profile on two RTX 5070 under WSL2.

Literals only. A host's own values go into inventory.py, a value for one run on the command line:
`--data max_num_seqs=8`. tasks/shared/settings.py says what each may be.
"""

# --- Engine ---------------------------------------------------------------------------------------
# files/patches/vllm-<version>/ and files/locks/vllm-<version>-<accelerator>* belong to it.
vllm_version = "0.31.0"
build_route = "auto"  # overlay: vLLM's wheel, patched | source: compiled | auto: as patches need
vllm_source = "sdist"  # what "source" compiles: sdist, or "https://github.com/…@<40-digit commit>"
cuda_arch_list = "12.0"  # compute capabilities to compile for: nvidia-smi --query-gpu=compute_cap
build_jobs = 1  # compilers at once; each may take 12 GiB, and more than fit are refused
keep_releases = 3  # the newest, and each that a kept generation needs
keep_generations = 10  # the newest, the current one and the one before
pinned_patches = [
    # Commits of pull requests, after the series: `make pin-patch URL=…` prints such an entry.
    # PR #53060 (fused decode for TurboQuant; long decode +28 %, KV pool -11 %) belongs here. It is
    # empty because the pull request is open and changes: which commit is the good one is yours to
    # say. It changes the layout of cached KV, and needs build_route "auto" or "source".
    # {
    #     "url": "https://github.com/vllm-project/vllm/commit/<40 digits>.patch",
    #     "vllm_version": "0.31.0",
    #     "why": "fused decode attention for turboquant_4bit_nc",
    #     "replaces": ["0003-turboquant-fused-decode.patch"],  # with turboquant_decode = "stock"
    #     "hunks_sha256": "<64 digits>",
    #     "files": {"csrc/…": {"before": "<64 digits>", "after": "<64 digits>"}},
    # },
]
accelerator = "cuda"  # cuda | cpu (on Debian 12: it is locked for Python 3.11)
wsl2 = True  # pinned memory, no peer-to-peer, the driver's libraries under /usr/lib/wsl
gpus = 2  # how many this server uses: its tensor parallel size
gpu_memory_mib = 12227  # smallest GPU: nvidia-smi --query-gpu=memory.total --format=csv
gpu_memory_utilization = None  # None: all but the 1.3 GiB that Windows keeps of each card

# --- Model ----------------------------------------------------------------------------------------
# host:/folder           a folder on the host, used in place
# control:folder         a folder on this machine, uploaded
# hf:owner/name@commit   a Hugging Face repository at a 40-digit commit
model = "host:/var/lib/vllm/models/ternary-27b"
served_model_name = "ternary-27b"  # what clients call it
max_model_len = 65536  # tokens of prompt and answer together; at most the model's own
dtype = "bfloat16"  # of activations: auto | bfloat16 | float16 | float32
quantization = None  # None: the quant_method of the model's config.json
# What vLLM lacks for it: wheels with an entry point vllm.general_plugins, and what they need.
plugins = []  # "some-quant==1.2.0 --hash=sha256:<64 hex>"
reasoning_parser = None  # vLLM's name for how this model marks its thinking: "qwen3"; None: plain
tool_call_parser = None  # and its tool calls: "hermes"; None: no tools
vision_tower = "cpu"  # cpu: in RAM, +16.5 % KV pool | gpu | off: not loaded | none: has no tower
vision_tower_gib = 1.0  # RAM for it on each rank

# --- Reached at -----------------------------------------------------------------------------------
listen_address = "127.0.0.1"  # for the LAN: front_door; docs/wsl2.md, docs/security.md
port = 8000
api_key_file = "secrets/api_key"  # on this machine; made with a new key when it is not there
hf_token_file = None  # on this machine, 0600; only for a gated repository
hf_endpoint = None  # another server that speaks Hugging Face's protocol, a mirror for example

# --- Front door: nginx with TLS for those who serve others, and only what the key protects --------
front_door = False  # on: listen_address has to be 127.0.0.1
front_door_address = "0.0.0.0"  # "::": IPv4 and IPv6
front_door_port = 443
# A PEM file on the host with its chain, or "self-signed": made there, given to every client by you.
front_door_certificate = None
front_door_certificate_key = None  # its key on the host; None with "self-signed"
front_door_names = []  # what clients call this host, for "self-signed": ["gpu.lan", "192.168.1.5"]
front_door_max_body_mb = 64  # of one request: images are large

# --- KV cache -------------------------------------------------------------------------------------
kv_cache_dtype = "turboquant_4bit_nc"  # auto: as dtype. Others: docs/profile.md
turboquant_decode = "fused"  # fused: ours, 7 times as fast from 16K tokens on | stock: vLLM's
mamba_ssm_cache_dtype = "bfloat16"  # with MTP 1 this gives blocks of 1,584 tokens
kv_ram_gib = 2.0  # RAM tier of all ranks together; 0: KV is kept on the GPU alone
kv_ssd_gb = 150  # SSD tier; 0: RAM only. What is above is removed, least recently used first
kv_ssd_dir = "/var/lib/vllm"  # the tier has a folder kv/ of its own in here
kv_min_free_gb = 20  # the tier gives way when its disk has less than this free
kv_prune_minutes = 15  # how often the timer looks; each start does as well
python_hash_seed = 0  # another seed orphans every file of the SSD tier

# --- Scheduling -----------------------------------------------------------------------------------
mtp_tokens = 1  # speculated tokens; 0: off, as for a model without MTP layers
max_num_seqs = 16  # requests that are answered at once; others wait
max_num_batched_tokens = 2048  # tokens that one step computes: more, and answers stutter more
# upstream         first come, first served: a late short prompt waits for a whole long one
# threshold        as well, but a long prompt takes at most the threshold a step while others wait
# shortest_first   the prompt with the least left to compute, the oldest never below a quarter
prefill_order = "shortest_first"
long_prefill_token_threshold = 0  # tokens, for "threshold" only

# --- Start, stop, restart -------------------------------------------------------------------------
ready_timeout_s = 1800  # a first start compiles kernels
shutdown_timeout_s = 30  # running requests may finish for so long
restart_delay_s = 20  # between a failure and the start that systemd makes by itself
gate_wait_s = 60  # a start waits so long for GPU memory, port and room that something else holds
start_limit_burst = 3  # starts that systemd makes before it gives up, within the next line's time
start_limit_interval_s = None  # None: the shortest that these allow; a shorter one is refused
slowest_failing_start_s = None  # as `hostkit failures` says; None: a start may use ready_timeout_s
idle_wait_s = 300  # a restart waits so long for a busy server to become idle; 0: it refuses
force = "no"  # for one run: --data force=yes stops a server that is in use
quality_check = True  # an upgrade asks questions with known answers, before and after
bench_gate = None  # percent that an upgrade may make the server slower, 5.0 for example; None: any
plan = None  # for one run: --data plan=HASH refuses an upgrade that is not the one planned
adopt = None  # for one run: the unit, or process, of a vLLM that ours takes over from
sbom = None  # for one run of tasks/sbom.py: the .cdx.json to write what a release consists of to
bundle = None  # for one run of tasks/doctor.py: the .tar.gz to write for somebody who helps
uninstall_also = []  # for one run: of user, packages, models, kv what else is removed
rollback_to = None  # for one run: the generation to go back to; None: the one before
canary = None  # the host that is restarted first, alone
rollout = []  # [["gpu-1", "gpu-2"], ["gpu-3"]]: restarted together; []: one after another
kv_pool_tolerance = 10  # percent that a start's KV pool may be smaller than the last good one's
max_jobs = 1  # compiler processes at once in the server's own JIT: each may take 12 GiB
memory_floor_mib = None  # below it compilers are ended; None: an eighth of RAM, at most 3 GiB

# --- When it fails --------------------------------------------------------------------------------
hang_after_s = 300  # requests under way and no progress for so long is a hang; 0: nobody looks
hang_restart = False  # end a server that hangs; systemd starts it again, within the start limit
notify_file = None  # on this machine, 0600, one line: https://… (a webhook) or mailto:…

# --- Metrics: Prometheus on the host, on loopback; docs/metrics.md --------------------------------
metrics = True
metrics_port = 9090  # Prometheus
metrics_exporter_port = 9091  # hostkit's own figures, for Prometheus
metrics_retention_days = 90  # at least 30
metrics_max_gb = 2  # what is kept takes no more than this: the oldest goes first
alertmanager = None  # "10.0.0.5:9093": an Alertmanager of yours that is told of alerts, over HTTP
prompt_source_metrics = True  # time to first token by source: computed, GPU cache, offloaded
time_zone = None  # "Europe/Berlin": of weekdays and hours; None: this machine's own
hours = None  # for one run: the last so many; None: 24, or a week where a line below says which
weekdays = None  # for one run: "mon-fri", "sat,sun"
hours_of_day = None  # for one run: "9-18"

# --- Load test (tasks/load_test.py; docs/measuring.md) --------------------------------------------
load_test_concurrency = [1, 8, 16]  # requests at once
load_test_prompts = ["synthetic", "real"]  # random words | prose, code, tables, notes
load_test_lengths = ["short", "long", "mixed"]  # 512 | 16,000 | 64 to 16,000 tokens
load_test_scenarios = ["late_short", "evicted"]  # "evicted_restart": restarts the server, too
load_test_rounds = 3  # so many requests for each of those at once, at least 4
load_test_answer = 256  # tokens of each answer
load_test_minutes = 60  # no run is begun later, and one that goes on is ended; at most 300
load_test_tolerance = 15  # percent that it may be worse than the last good one
load_test_baseline = "last"  # for one run: --data load_test_baseline=new accepts a slower server
sweep = None  # for one run: --data sweep=mtp measures 1 to 4 speculated tokens, and goes back
profile = 0  # for one run: --data profile=1 restarts with a profiler, looks at a step, and back
soak = 0.0  # for one run: --data soak=8 asks the same for 8 hours instead, and looks for drift

# --- WSL2 and Windows (nothing of it is done with wsl2 = False) -----------------------------------
# All of it goes into Windows' .wslconfig, and holds after `wsl --shutdown`. None: as it is there.
wsl_memory_gib = None  # the VM's memory; WSL's own default is half of Windows'
wsl_swap_gib = None  # the VM's swap file; 0: none
wsl_networking = None  # nat | mirrored: how the LAN reaches the server, docs/wsl2.md
wsl_keep_alive = True  # the VM does not stop when the last terminal closes
windows_user = None  # whose .wslconfig; only needed where Windows has several users

# --- Tried and rejected, or known to hurt: files/compat -------------------------------------------
# One by one, by the name in the refusal: "fp8-kv", "nvfp4-kv", "lmcache", "mtp-above-1", …
accept_risks = []

# --- Anything else that vLLM understands ----------------------------------------------------------
extra_serve_args = {}  # {"enable-prompt-tokens-details": True}
extra_env = {}  # {"TQ_SIMT_CTAS_PER_SM": "3"}: what vLLM or a patch reads from its environment

# --- Where packages come from ---------------------------------------------------------------------
# The host's own pip and uv configuration holds; these come on top. All is checked by hash.
# Proxies and certificates: docs/network.md.
extra_index_urls = []
find_links = []  # folders on the host, or URLs; when set, extra_index_urls are not asked
proxy = None  # "http://proxy.lan:3128": for every download, on the hosts and on this machine
no_proxy = []  # names, .domains and addresses that are reached without it
ca_certificates = None  # a PEM file on this machine with your network's own authorities
cuda_repository = None  # a mirror of NVIDIA's apt repository, "https://…/x86_64/"; None: NVIDIA's
cuda_key_fingerprint = None  # the 40 hex digits of the key that signs cuda_repository
