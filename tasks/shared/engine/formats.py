"""What the server is told as the texts that it is told it in: YAML and an environment file."""

import json
import math
import re
from typing import Any

# Line ends and control characters to YAML, though not to JSON.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


def serve_yaml(config: dict[str, Any]) -> str:
    """`serve_config` as text for vLLM's --config, a line a value.

    Raises ValueError for a value that YAML would not give back as it is.
    """
    for key, value in config.items():
        nested = isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value)
        if value is None or nested:
            raise ValueError(f"vLLM cannot be told {key} = {value!r} in its configuration file")
    return "".join(f"{key}:{_yaml(value, 1)}\n" for key, value in config.items())


def _yaml(value: Any, depth: int) -> str:
    """A value behind its key or dash: scalars on the same line, the rest below, indented."""
    indent = "\n" + "  " * depth
    if isinstance(value, dict) and value:
        return "".join(f"{indent}{json.dumps(k)}:{_yaml(v, depth + 1)}" for k, v in value.items())
    if isinstance(value, list) and value:
        return "".join(f"{indent}-{_yaml(item, depth + 1)}" for item in value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a number that vLLM can be told")
        # YAML takes 1e-05 for text: it wants a point in front of the exponent.
        return f" {value!r}" if "." in repr(value) else f" {value:.1e}"
    if value is None or isinstance(value, (bool, int, str, dict, list)):
        return f" {_UNPRINTABLE.sub(_escaped, json.dumps(value, ensure_ascii=False))}"
    raise ValueError(f"{value!r} is of a type that vLLM cannot be told: use text, numbers, lists")


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def env_file(env: dict[str, str]) -> str:
    """`environment` as a file that systemd reads back unchanged.

    Double quotes; inside them systemd takes a backslash for itself and nothing else.
    """
    return "".join(f"{key}={_quoted(value)}\n" for key, value in env.items())


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return '"' + escaped.replace("`", "\\`") + '"'
