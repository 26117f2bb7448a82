"""vLLM's own flags, their defaults and its environment variables, read out of its sources.

Nothing is imported: the sources of any version can be read anywhere.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_FLAG_CLASSES = ("EngineArgs", "AsyncEngineArgs", "BaseFrontendArgs", "FrontendArgs")
_SOURCES = ("vllm/engine/arg_utils.py", "vllm/entrypoints/openai/cli_args.py")


@dataclass(frozen=True)
class Surface:
    """What a version of vLLM can be told: names, each with its default as source text."""

    flags: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


def read(root: Path) -> Surface:
    """Read an unpacked vLLM. Raises ValueError when its flags are not where they are looked for."""
    flags: dict[str, str] = {}
    for source in _SOURCES:
        for owner, name, default in _fields(root / source):
            if owner in _FLAG_CLASSES:
                flags[name.replace("_", "-")] = default
    if not flags:
        raise ValueError(f"no flags found in {' or '.join(_SOURCES)}: has vLLM moved them?")
    config = {
        f"{owner}.{name}": default
        for source in sorted((root / "vllm/config").glob("*.py"))
        for owner, name, default in _fields(source)
    }
    return Surface(flags, config, dict(_variables(root / "vllm/envs.py")))


def differences(before: Surface, after: Surface) -> list[str]:
    """A line for each flag, default or variable that came, went or changed."""
    lines = []
    for kind, old, new in (
        ("flag --", before.flags, after.flags),
        ("default ", before.config, after.config),
        ("variable ", before.variables, after.variables),
    ):
        for name in sorted({*old, *new}):
            if name not in old:
                lines.append(f"+ {kind}{name} = {new[name]}")
            elif name not in new:
                lines.append(f"- {kind}{name} (was {old[name]})")
            elif old[name] != new[name]:
                lines.append(f"~ {kind}{name}: {old[name]} -> {new[name]}")
    return lines


def _fields(source: Path) -> Iterator[tuple[str, str, str]]:
    """Class, name and default of every annotated field."""
    if not source.is_file():
        return
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    default = ast.unparse(statement.value) if statement.value else "(required)"
                    yield node.name, statement.target.id, _short(default)


def _variables(source: Path) -> Iterator[tuple[str, str]]:
    """The variables of vllm/envs.py: declared with their defaults for type checkers."""
    if not source.is_file():
        return
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id.isupper()
        ):
            yield node.target.id, _short(ast.unparse(node.value) if node.value else "(none)")


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."
