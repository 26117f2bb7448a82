"""Which settings vLLM refuses, should refuse, or were tried and rejected: data, judged here.

The data is files/compat/vllm-<version>/; its README says how it is written. No host is asked.
"""

import contextlib
import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from tasks.shared.engine import serving
from tasks.shared.release import patches

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

MANIFESTS = Path("files/compat")

_SETTINGS = {
    "cpu-offload-params": "vision_tower",
    "host": "listen_address",
    "kv-transfer-config": "kv_ram_gib",
    "shutdown-timeout": "shutdown_timeout_s",
    "speculative-config": "mtp_tokens",
}
"""The setting that a flag follows from, where it is not called like the flag."""


class Rule(BaseModel):
    """A combination that must not be started. files/compat/README.md explains the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    when: dict[str, Any]
    vllm: str
    reason: str
    source: str
    override: bool = False
    needs: str = ""
    frees: list[str] = []
    in_tree: str = ""
    refused: dict[str, Any]
    passes: dict[str, Any]
    without_patches: bool = False


class Asked(BaseModel):
    """What only vLLM itself can tell, and where it is seen to do so."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str
    source: str
    by: str
    test: str


@dataclass(frozen=True)
class Manifest:
    """What is known of one version of vLLM."""

    version: str
    rules: dict[str, Rule]
    asked: list[Asked]
    flags: dict[str, str]
    """Every spelling of every flag, to its full name; `no-…` among them."""

    variables: frozenset[str]
    quantization_methods: list[str]
    judged: frozenset[str]
    """What is not as in the version before it, and about which somebody has made up their mind."""


def versions() -> list[str]:
    """The versions that there is a manifest for."""
    return sorted(path.name.removeprefix("vllm-") for path in MANIFESTS.glob("vllm-*"))


@cache
def manifest(version: str) -> Manifest:
    """The manifest of a version. Raises ValueError when it has none."""
    if version not in versions():
        raise ValueError(
            f"vLLM {version} has no compatibility manifest: make new-version V={version}"
        )
    folder = MANIFESTS / f"vllm-{version}"
    data: dict[str, Any] = {}
    for file in sorted(folder.glob("*.toml")):
        for key, value in tomllib.loads(file.read_text(encoding="utf-8")).items():
            data[key] = data[key] + value if isinstance(data.get(key), list) else value
    base = manifest(data["inherits"]) if "inherits" in data else None
    rules = dict(base.rules) if base else {}
    rules |= {each["name"]: Rule.model_validate(each) for each in data.get("rule", [])}
    for name, change in data.get("change", {}).items():
        rules[name] = Rule.model_validate(rules[name].model_dump() | change)
    flags, variables = _names(folder / "names")
    return Manifest(
        version,
        rules,
        [Asked.model_validate(each) for each in data.get("asked", [])],
        flags,
        variables,
        data.get("quantization_methods") or (base.quantization_methods if base else []),
        frozenset(data.get("judged", [])),
    )


def _names(file: Path) -> tuple[dict[str, str], frozenset[str]]:
    flags: dict[str, str] = {}
    variables: set[str] = set()
    for kind, name, *others in map(str.split, file.read_text(encoding="utf-8").splitlines()):
        if kind == "flag":
            flags |= dict.fromkeys([name, *others], name)
        else:
            variables.add(name)
    return flags, frozenset(variables)


@dataclass(frozen=True)
class Finding:
    """A rule that these settings break, and how that reads."""

    rule: Rule
    text: str


def check(settings: "Settings") -> None:
    """Raise ValueError when something must not be started; it says all that was found."""
    found = [*_misspelt(settings), *_misplaced_acceptances(settings)]
    for finding in findings(settings):
        if finding.rule.name not in settings.accept_risks or not finding.rule.override:
            found.append(f"{finding.text}; {_way_out(finding.rule)}")
    if found:
        raise ValueError("; and ".join(found))


def warnings(settings: "Settings") -> list[str]:
    """Every accepted risk that these settings run, a line each."""
    return [
        f"ACCEPTED RISK {finding.rule.name}: {finding.text}"
        for finding in findings(settings)
        if finding.rule.name in settings.accept_risks
    ]


def freed_flags(settings: "Settings") -> set[str]:
    """Flags that a setting decides, and that an accepted risk hands to extra_serve_args."""
    rules = manifest(settings.vllm_version).rules
    accepted = [rules[name] for name in settings.accept_risks if name in rules]
    # Only where this deploy brings no KV connector of its own.
    return {flag for rule in accepted for flag in rule.frees} if not settings.kv_ram_gib else set()


def findings(settings: "Settings", *, stock: bool = False) -> list[Finding]:
    """The rules that these settings break, accepted or not; `stock`: as if nothing was patched."""
    told = subjects(settings, stock=stock)
    rules = manifest(settings.vllm_version).rules.values()
    return [
        Finding(rule, _said(rule, told, settings))
        for rule in rules
        if not rule.in_tree and breaks(rule, told)
    ]


def breaks(rule: Rule, told: Mapping[str, Any]) -> bool:
    """Do all conditions of a rule hold?"""
    return all(_matches(test, told.get(key), told) for key, test in rule.when.items())


def _matches(test: Any, value: Any, told: Mapping[str, Any]) -> bool:
    if isinstance(test, list):
        return value in test
    if not isinstance(test, dict):
        return bool(value == test and type(value) is type(test))
    return all(_compare(kind, limit, value, told) for kind, limit in test.items())


def _compare(kind: str, limit: Any, value: Any, told: Mapping[str, Any]) -> bool:
    if kind == "present":
        return (value is not None) is limit
    if kind == "not_in":
        return value not in limit
    if kind == "lacks":
        return limit not in value
    if value is None:
        return False
    if kind == "matches":
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        return re.search(limit, text) is not None
    if kind == "keys_beyond":
        return not set(value) <= set(limit)
    bound = told.get(limit) if isinstance(limit, str) else limit
    if bound is None or not isinstance(value, (int, float)):
        return False
    if kind == "not_multiple_of":
        return bool(value % bound != 0)
    return bool({"above": value > bound, "below": value < bound, "at_least": value >= bound}[kind])


def subjects(settings: "Settings", *, stock: bool = False) -> dict[str, Any]:
    """What the rules speak of: flags and variables as vLLM will see them, the host, the patches.

    What extra_serve_args and extra_env say wins here, also where that is refused elsewhere, so that
    each refusal can name its own reason.
    """
    own = settings.model_copy(update={"extra_serve_args": {}, "extra_env": {}})
    config = serving.serve_config(own, kv_fingerprint="") | _extra_flags(settings)
    env = serving.environment(own, release="") | settings.extra_env
    series = [] if stock else patches.wanted(settings)
    return {
        **dict(_flat("", config)),
        **{f"env.{name}": value for name, value in env.items()},
        "env.expandable_segments": any(
            _expandable(env.get(name, ""))
            for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
        ),
        "host.wsl2": settings.wsl2,
        "host.gpus": settings.gpus,
        "settings.front_door": settings.front_door,
        "settings.kv_ssd_dir": settings.kv_ssd_dir,
        "settings.kv_ssd_gb": settings.kv_ssd_gb,
        "settings.gpu_memory_mib": settings.gpu_memory_mib,
        "settings.safe_utilization": settings.safe_utilization,
        "patched": {file for patch in series for file in patch.files},
        "patches": "" if stock else "".join(patches.texts(settings).values()),
    }


def _extra_flags(settings: "Settings") -> dict[str, Any]:
    flags = manifest(settings.vllm_version).flags
    told: dict[str, Any] = {}
    for key, value in settings.extra_serve_args.items():
        if isinstance(value, str) and value.lstrip().startswith("{"):
            with contextlib.suppress(ValueError):
                value = json.loads(value)
        name = flags.get(key, key)
        negated = key.startswith("no-") and key != name
        told[name] = value is False if negated else value
    return told


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if prefix:
        yield prefix, value
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, each in items:
        yield from _flat(f"{prefix}.{key}" if prefix else str(key), each)


def _expandable(conf: str) -> bool:
    """Whether an allocator configuration switches expandable segments on; the last word counts."""
    words = re.findall(r"expandable_segments\s*:\s*(\w+)", conf)
    return bool(words) and words[-1].lower() in ("true", "1")


def _misspelt(settings: "Settings") -> Iterator[str]:
    known = manifest(settings.vllm_version)
    for key in settings.extra_serve_args:
        full = known.flags.get(key)
        if full is None:
            near = _nearest(key, known.flags)
            yield f"extra_serve_args: vLLM {known.version} has no flag {key}{near}"
        elif key not in (full, f"no-{full}"):
            yield f"extra_serve_args: write {key} as {full}"
        elif key != full and full in settings.extra_serve_args:
            yield f"extra_serve_args: {full} and {key} are the same flag"
    for name in settings.extra_env:
        # A plugin may read variables of its own.
        if name.startswith("VLLM_") and name not in known.variables and not settings.plugins:
            near = _nearest(name, known.variables)
            yield f"extra_env: vLLM {known.version} has no variable {name}{near}"


def _nearest(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f": did you mean {close[0]}?" if close else ""


def _misplaced_acceptances(settings: "Settings") -> Iterator[str]:
    rules = manifest(settings.vllm_version).rules
    for name in settings.accept_risks:
        rule = rules.get(name)
        if rule is None:
            yield f"accept_risks: there is no risk called {name}{_nearest(name, rules)}"
        elif not rule.override:
            yield f"accept_risks: {name} cannot be accepted; {_way_out(rule)}"


def _said(rule: Rule, told: Mapping[str, Any], settings: "Settings") -> str:
    """Setting, value, reason and source."""
    key = next((each for each in rule.when if not each.startswith(("host.", "patch"))), "wsl2")
    name, value = _setting(key, told, settings)
    reason = re.sub(r"\{([\w.-]+)\}", lambda match: str(told.get(match[1])), rule.reason)
    return f"{name}{value}: {reason} ({rule.source})"


def _setting(key: str, told: Mapping[str, Any], settings: "Settings") -> tuple[str, str]:
    if key == "env.expandable_segments":
        return "extra_env: expandable_segments", ""
    if key.startswith("env."):
        name = key.removeprefix("env.")
        return f"extra_env: {name}", f" = {told[key]!r}" if key in told else ""
    if key.startswith("settings."):
        return key.removeprefix("settings."), f" = {told[key]!r}"
    flag = key.split(".", 1)[0]
    if flag in _extra_flags(settings):
        return f"extra_serve_args: {key}", f" = {told[key]!r}" if key in told else " is missing"
    name = _SETTINGS.get(flag, flag.replace("-", "_"))
    return name, f" = {getattr(settings, name)!r}" if name in type(settings).model_fields else ""


def _way_out(rule: Rule) -> str:
    if rule.override:
        return f'to run it all the same: accept_risks = ["{rule.name}"]'
    return f"needed would be {rule.needs}" if rule.needs else "there is no switch for this"
