"""vLLM's own flags, their defaults and its environment variables, read out of its sources.

Nothing is imported: the sources of any version can be read anywhere.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

_FLAG_CLASSES = ("EngineArgs", "AsyncEngineArgs", "BaseFrontendArgs", "FrontendArgs")
_ENGINE = ("vllm/engine/arg_utils.py",)
_FRONTEND = ("vllm/entrypoints/launchers/cli_args.py", "vllm/entrypoints/openai/cli_args.py")
"""Where the server's own flags are since 0.31.0, and where they were before."""


@dataclass(frozen=True)
class Surface:
    """What a version of vLLM can be told: names, each with its default as source text."""

    flags: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


def read(root: Path) -> Surface:
    """Read an unpacked vLLM. Raises ValueError when something is not where it is looked for."""
    flags = _flags(root, _ENGINE) | _flags(root, _FRONTEND)
    config = {
        f"{owner}.{name}": default
        for source in sorted((root / "vllm/config").glob("*.py"))
        for owner, name, default in _fields(source)
    }
    return Surface(flags, config, dict(_variables(root / "vllm/envs.py")))


@dataclass(frozen=True)
class Change:
    """A flag, default or variable that came (no `before`), went (no `after`) or changed."""

    kind: Literal["flag", "default", "variable"]
    name: str
    before: str | None
    after: str | None

    @property
    def subject(self) -> str:
        """What a manifest calls it."""
        return f"{self.kind} {'--' if self.kind == 'flag' else ''}{self.name}"

    @property
    def line(self) -> str:
        if self.before is None:
            return f"+ {self.subject} = {self.after}"
        if self.after is None:
            return f"- {self.subject} (was {self.before})"
        return f"~ {self.subject}: {self.before} -> {self.after}"


def changes(before: Surface, after: Surface) -> list[Change]:
    """Every flag, default and variable that is not the same in both."""
    kinds: list[tuple[Literal["flag", "default", "variable"], Mapping[str, str], Mapping[str, str]]]
    kinds = [
        ("flag", before.flags, after.flags),
        ("default", before.config, after.config),
        ("variable", before.variables, after.variables),
    ]
    return [
        Change(kind, name, old.get(name), new.get(name))
        for kind, old, new in kinds
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def _flags(root: Path, places: tuple[str, ...]) -> dict[str, str]:
    """The flags of the first of these sources that is there."""
    source = next((root / place for place in places if (root / place).is_file()), None)
    found = dict(_arguments(source)) if source else {}
    for owner, name, default in _fields(source) if source else ():
        # An underscore in front is argparse's business, not the operator's.
        if owner in _FLAG_CLASSES and not name.startswith("_"):
            found[name.replace("_", "-")] = default
    if not found:
        raise ValueError(f"no flags found in {' or '.join(places)}: has vLLM moved them?")
    return found


def _arguments(source: Path) -> Iterator[tuple[str, str]]:
    """Flags that are added by name alone, with what add_argument says of their default."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            names = [a.value for a in node.args if isinstance(a, ast.Constant)]
            default = next((k.value for k in node.keywords if k.arg == "default"), None)
            for name in names:
                if isinstance(name, str) and name.startswith("--"):
                    yield name[2:], _short(ast.unparse(default)) if default else "(none)"


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
    """The variables of vllm/envs.py: a table of them, and defaults declared for type checkers."""
    if not source.is_file():
        raise ValueError("no vllm/envs.py: has vLLM moved its variables?")
    table: list[str] = []
    declared: dict[str, str] = {}
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if node.target.id == "environment_variables" and isinstance(node.value, ast.Dict):
                table = [k.value for k in node.value.keys if isinstance(k, ast.Constant)]  # type: ignore[misc]
            elif node.target.id.isupper() and node.value:
                declared[node.target.id] = _short(ast.unparse(node.value))
    if not table:
        raise ValueError("no environment_variables in vllm/envs.py: has vLLM moved them?")
    for name in table:
        yield name, declared.get(name, "(none)")


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."
