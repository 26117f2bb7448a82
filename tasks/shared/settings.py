"""The operator's settings: one validated, frozen object per host.

`group_data/all.py`, inventory.py and `--data` are merged by pyinfra into `host.data`; this module
is the only reader of it. Everything else takes a `Settings`.
"""

import re
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pyinfra import host, inventory, state
from pyinfra.api import Host
from pyinfra.api.exceptions import DeployError

from tasks.shared import credentials, front_door, metrics, models, network, texts
from tasks.shared.engine import compat, decode, formats, prefill, proofs, serving, start_limit
from tasks.shared.load_tests.choices import LoadTestSettings
from tasks.shared.release import patches, plugins, releases
from tasks.shared.run import wrong_settings
from tasks.shared.traffic.choices import ReportSettings

WDDM_RESERVE_MIB = 1331
"""What Windows keeps of a card that WSL2 uses, 1.3 GiB: a server told to take more dies at load."""

Line = Annotated[str, StringConstraints(min_length=1), AfterValidator(texts.one_line)]
AbsolutePath = Annotated[str, AfterValidator(texts.absolute_path)]
Address = Annotated[str, StringConstraints(min_length=1), AfterValidator(texts.address)]
WebAddress = Annotated[Address, StringConstraints(pattern=r"^https?://[^\s]+$")]
Count = Annotated[int, Field(ge=1)]
Port = Annotated[int, Field(ge=1024, le=65535)]


class Settings(LoadTestSettings, ReportSettings):
    """What the operator decided for one host. Keys are those of group_data/all.py."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    vllm_version: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]
    accelerator: Literal["cuda", "cpu"]
    wsl2: bool
    gpus: Annotated[int, Field(ge=1, le=16)]
    gpu_memory_mib: Annotated[int, Field(ge=2048)]
    gpu_memory_utilization: Annotated[float, Field(gt=0, lt=1)] | None

    build_route: Literal["auto", "overlay", "source"]
    vllm_source: Annotated[Address, StringConstraints(pattern=r"^(sdist|\S+://\S+@[0-9a-f]{40})$")]
    cuda_arch_list: Annotated[str, StringConstraints(pattern=r"^\d+\.\d[af]?(;\d+\.\d[af]?)*$")]
    build_jobs: Count
    pinned_patches: list[patches.PinnedPatch]

    model: str
    served_model_name: Annotated[str, StringConstraints(pattern=r"^[\w./:-]+$")]
    max_model_len: Count
    dtype: Literal["auto", "bfloat16", "float16", "float32"]
    quantization: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]+$")] | None
    plugins: list[plugins.Pinned]
    reasoning_parser: Line | None
    tool_call_parser: Line | None
    vision_tower: Literal["cpu", "gpu", "off", "none"]
    vision_tower_gib: Annotated[float, Field(gt=0)]

    listen_address: Annotated[str, StringConstraints(pattern=r"^[\w.:-]+$")]
    port: Port
    api_key_file: Line
    hf_token_file: Line | None
    hf_endpoint: WebAddress | None

    front_door: bool
    front_door_address: Annotated[str, AfterValidator(texts.ip_address)]
    front_door_port: Annotated[int, Field(ge=1, le=65535)]
    front_door_certificate: Annotated[str, AfterValidator(front_door.certificate)] | None
    front_door_certificate_key: AbsolutePath | None
    front_door_names: list[Annotated[str, AfterValidator(front_door.name)]]
    front_door_max_body_mb: Count

    kv_cache_dtype: Line
    turboquant_decode: Literal["fused", "stock"]
    mamba_ssm_cache_dtype: Literal["auto", "bfloat16", "float16", "float32"]
    kv_ram_gib: Annotated[float, Field(ge=0)]
    kv_ssd_gb: Annotated[int, Field(ge=0)]
    kv_ssd_dir: AbsolutePath
    kv_min_free_gb: Annotated[int, Field(ge=0)]
    kv_prune_minutes: Annotated[int, Field(ge=1, le=1440)]
    python_hash_seed: Annotated[int, Field(ge=0, le=4294967295)]

    mtp_tokens: Annotated[int, Field(ge=0, le=8)]
    max_num_seqs: Count
    max_num_batched_tokens: Count
    prefill_order: prefill.PrefillOrder
    long_prefill_token_threshold: Annotated[int, Field(ge=0)]

    ready_timeout_s: Annotated[int, Field(ge=10)]
    shutdown_timeout_s: Annotated[int, Field(ge=1)]
    restart_delay_s: Count
    gate_wait_s: Annotated[int, Field(ge=0)]
    start_limit_burst: Annotated[int, Field(ge=1, le=20)]
    start_limit_interval_s: Count | None
    slowest_failing_start_s: Count | None
    idle_wait_s: Annotated[int, Field(ge=0)]
    force: Literal["no", "yes"]
    kv_pool_tolerance: Annotated[int, Field(ge=1, le=100)]
    quality_check: bool
    bench_gate: Annotated[float, Field(gt=0, le=100)] | None
    plan: Line | None
    rollback_to: Count | None
    adopt: Annotated[Line, BeforeValidator(texts.number_as_text)] | None
    bundle: Annotated[str, AfterValidator(texts.new_archive)] | None
    sbom: Annotated[str, AfterValidator(texts.new_bill)] | None
    uninstall_also: list[Literal["user", "packages", "models", "kv"]]
    canary: Line | None
    rollout: list[list[Line]]
    hang_after_s: Annotated[int, Field(ge=0)]
    hang_restart: bool
    notify_file: Line | None
    prompt_source_metrics: bool
    max_jobs: Count
    keep_generations: Count
    keep_releases: Count
    memory_floor_mib: Annotated[int, Field(ge=256)] | None

    metrics: bool
    metrics_port: Port
    metrics_exporter_port: Port
    metrics_retention_days: Annotated[int, Field(ge=30)]
    metrics_max_gb: Annotated[int, Field(ge=1)]
    alertmanager: Annotated[str, AfterValidator(texts.host_and_port)] | None

    wsl_memory_gib: Annotated[int, Field(ge=8)] | None
    wsl_swap_gib: Annotated[int, Field(ge=0)] | None
    wsl_networking: Literal["nat", "mirrored"] | None
    wsl_keep_alive: bool
    windows_user: Annotated[str, AfterValidator(texts.file_name)] | None

    accept_risks: list[str]
    extra_serve_args: dict[str, Any]
    extra_env: dict[str, str]

    extra_index_urls: list[Address]
    find_links: list[Address]
    proxy: Annotated[str, AfterValidator(network.proxy_url)] | None
    no_proxy: list[Annotated[str, AfterValidator(network.direct_name)]]
    ca_certificates: Annotated[str, AfterValidator(network.certificate_file)] | None
    cuda_repository: Annotated[WebAddress, StringConstraints(pattern=r"/$")] | None
    cuda_key_fingerprint: Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f]{40}$")] | None

    @field_validator("model")
    @classmethod
    def _model_has_a_known_form(cls, value: str) -> str:
        models.check_source(models.parse(value))
        return value

    @field_validator("api_key_file")
    @classmethod
    def _key_file_is_private(cls, value: str) -> str:
        credentials.check_key_file(value)
        return value

    @field_validator("hf_token_file")
    @classmethod
    def _token_file_is_private(cls, value: str | None) -> str | None:
        if value is not None:
            credentials.check_token_file(value)
        return value

    @field_validator("notify_file")
    @classmethod
    def _address_is_private(cls, value: str | None) -> str | None:
        if value is not None:
            credentials.notify_address(value)
        return value

    @field_validator("vllm_version")
    @classmethod
    def _version_has_its_files(cls, value: str) -> str:
        if missing := releases.missing(value):
            raise ValueError(
                f"must be one of {', '.join(releases.versions())}; this one lacks "
                f"{', '.join(missing)}: make new-version V={value}"
            )
        patches.series(value)
        return value

    @field_validator("extra_env")
    @classmethod
    def _environment_survives_systemd(cls, value: dict[str, str]) -> dict[str, str]:
        for key, text in value.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
                raise ValueError(f"{key!r} is not a name of an environment variable")
            texts.one_line(text)
        return value

    @field_validator("extra_serve_args")
    @classmethod
    def _flags_are_written_without_dashes(cls, value: dict[str, Any]) -> dict[str, Any]:
        for key in value:
            if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key):
                raise ValueError(f"write {key!r} as vLLM's flag without the leading dashes")
        return value

    @model_validator(mode="after")
    def _values_fit_together(self) -> "Settings":
        compat.check(self)
        prefill.check(self)
        if self.kv_ssd_gb and not self.kv_ram_gib:
            raise ValueError("kv_ssd_gb needs kv_ram_gib above 0: the SSD tier is fed from RAM")
        if self.no_proxy and not self.proxy:
            raise ValueError("no_proxy has no effect without proxy")
        if (self.cuda_repository is None) != (self.cuda_key_fingerprint is None):
            raise ValueError(
                "cuda_repository and cuda_key_fingerprint go together: a mirror of NVIDIA's is "
                "signed with NVIDIA's key, see tasks/shared/cuda.py"
            )
        start_limit.check(self)
        front_door.check(self)
        metrics.check(self)
        decode.check(self)
        patches.check(self)
        config = serving.serve_config(self, kv_fingerprint="")
        try:
            formats.serve_yaml(config)
        except ValueError as error:
            raise ValueError(f"extra_serve_args: {error}") from error
        serving.environment(self, release="")
        proofs.expected(self)
        return self

    @model_validator(mode="after")
    def _model_fits(self) -> "Settings":
        methods = self.demands.methods
        if self.quantization and methods and self.quantization not in methods:
            raise ValueError(
                f"quantization = {self.quantization!r} is none that vLLM {self.vllm_version} "
                f"registers: a plugin that brings it would be needed (plugins); there are "
                f"{', '.join(methods)}"
            )
        if self.plugins:
            lock = releases.LOCKS / f"vllm-{self.vllm_version}-{self.accelerator}.txt"
            plugins.check(self.plugins, lock.read_text(encoding="utf-8"))
        models.check_fit(self.source, self.demands)
        return self

    @property
    def demands(self) -> models.Demands:
        """What these settings ask of the model's config.json."""
        known = compat.manifest(self.vllm_version).quantization_methods
        return models.Demands(
            max_model_len=self.max_model_len,
            # A plugin may bring more: only the release itself knows then.
            methods=() if self.plugins else tuple(known),
        )

    @property
    def freed_flags(self) -> set[str]:
        """Flags that an accepted risk hands to `extra_serve_args`."""
        return compat.freed_flags(self)

    @property
    def source(self) -> models.ModelSource:
        """Where the model comes from."""
        return models.parse(self.model)

    @property
    def ports(self) -> dict[int, str]:
        """The ports that something of ours listens on, and the setting that decides each."""
        return {self.port: "port", **front_door.ports(self), **metrics.ports(self)}

    @property
    def url(self) -> str:
        """Where clients reach the server: by the front door, else where vLLM itself listens."""
        if self.front_door:
            return front_door.url(self)
        return f"http://{texts.in_url(self.listen_address)}:{self.port}/v1"

    @property
    def model_dir(self) -> str:
        """The model's folder on the host."""
        return self.source.folder_on_host

    @property
    def safe_utilization(self) -> float:
        """The share of a GPU's memory that vLLM may take, rounded down to hundredths."""
        reserve = WDDM_RESERVE_MIB if self.wsl2 else 0
        share = (self.gpu_memory_mib - reserve) / self.gpu_memory_mib
        return min(int(share * 100) / 100, 0.95)


def settings() -> Settings:
    """The settings of the host at hand.

    The first call validates every host of the inventory, so that nothing is asked of any host while
    one of them has a mistake. Raises DeployError with a line per mistake.
    """
    return _all_settings()[host.name]


def of_all_hosts() -> dict[str, Settings]:
    """The settings of every host of the inventory, by its name."""
    return _all_settings()


def runs_through_sudo() -> bool:
    """Do commands on the host at hand become root's through sudo?"""
    return bool(host.data.get("_sudo") or state.config.SUDO)


@cache
def _all_settings() -> dict[str, Settings]:
    valid: dict[str, Settings] = {}
    problems: list[str] = []
    for each in inventory:
        try:
            told = each.data.dict()  # type: ignore[no-untyped-call]
            problems += wrong_settings.unknown_arguments(each.name, told)
            valid[each.name] = Settings.model_validate(_own_data(each))
        except ValidationError as error:
            problems += describe(each.name, error)
        except OSError as error:
            problems.append(f"  {each.name}: {error.filename}: cannot be read: {error.strerror}")
    if problems:
        count = "1 mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        raise DeployError(f"{count} in the settings:\n" + "\n".join(problems))
    return valid


def _own_data(each: Host) -> dict[str, Any]:
    """A host's data without what pyinfra and its connectors own."""
    # @chroot's own key, which it does not declare.
    connector_keys = {*each.connector_cls.data_meta, "chroot_directory"}
    return {
        key: value
        for key, value in each.data.dict().items()  # type: ignore[no-untyped-call]
        if not key.startswith("_") and key not in connector_keys
    }


def describe(host_name: str, error: ValidationError) -> list[str]:
    """A line per mistake in a `Settings`: host, key, value found, what is expected."""
    return wrong_settings.describe(host_name, error, Settings.model_fields)
