"""What an upgrade would change on a host, in words, and a hash of it: pure functions."""

import hashlib
import json
import re
from dataclasses import dataclass

from tasks.shared.release import locks
from tasks.shared.trees import Link, Tree, differences

_TIER = re.compile(r"(?<=/kv/)[0-9a-f]{12}")


@dataclass(frozen=True)
class Plan:
    """`changes` decide the hash; `outlook` is what may be different at another hour."""

    changes: tuple[str, ...]
    outlook: tuple[str, ...]

    @property
    def hash(self) -> str:
        """12 hex digits of what changes."""
        return hashlib.sha256(json.dumps(self.changes).encode()).hexdigest()[:12]

    @property
    def lines(self) -> list[str]:
        return [*(self.changes or ("nothing changes",)), *self.outlook]


@dataclass(frozen=True)
class Side:
    """A generation's files and its release's inputs, either on the host or as wanted."""

    generation: Tree
    inputs: Tree

    def spec(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(_text(self.inputs, "spec.json") or "{}")
        return found

    def release(self) -> str:
        return str(json.loads(_text(self.generation, "generation.json") or "{}").get("release"))

    def tier(self) -> str | None:
        """The name of the SSD tier's folder."""
        found = _TIER.search(_text(self.generation, "serve.yaml"))
        return found[0] if found else None


def plan(
    before: Side, after: Side, *, tier_bytes: int, usual_start_s: float | None, drain_s: int
) -> Plan:
    """Compare what a host runs with what it should run.

    `tier_bytes` lie in the SSD tier now; `usual_start_s` is how long the last good start took.
    """
    changes = [
        *_releases(before, after),
        *_packages(before.inputs, after.inputs),
        *_files(_told(before), _told(after)),
    ]
    outlook = []
    if before.tier() and before.tier() != after.tier():
        changes.append("SSD tier: another folder, what the old one holds cannot be read any more")
        outlook.append(f"SSD tier: {tier_bytes / 1e9:.1f} GB become unreachable")
    elif before.tier():
        outlook.append(f"SSD tier: its {tier_bytes / 1e9:.1f} GB stay readable")
    if changes and before.generation:
        took = f"{usual_start_s:.0f} s" if usual_start_s else "unknown, no start is on record"
        outlook.append(
            f"expected downtime: {took}, as the last good start, and up to {drain_s} s in which "
            "running requests end"
        )
    return Plan(tuple(changes), tuple(outlook))


def between(before: Tree, after: Tree) -> list[str]:
    """What differs between two generations, from their files alone."""
    sides = Side(before, {}), Side(after, {})
    told = [_told(side) for side in sides]
    return [*_releases(*sides), *_files(*told)] or ["only the API key or the weights"]


def _releases(before: Side, after: Side) -> list[str]:
    old, new = before.release(), after.release()
    if old == new:
        return []
    lines = [f"release: {old} -> {new}"]
    versions = [side.spec().get("version") for side in (before, after)]
    if versions[0] != versions[1]:
        lines.append(f"vLLM: {versions[0]} -> {versions[1]}")
    patches = [_patches(side) for side in (before, after)]
    lines += [f"patch: - {name}" for name in sorted(patches[0] - patches[1])]
    lines += [f"patch: + {name}" for name in sorted(patches[1] - patches[0])]
    return lines


def _patches(side: Side) -> set[str]:
    """Names of the patches, each with a hash of its text: the same name may hold another patch."""
    return {
        f"{path.removeprefix('patches/')} ({hashlib.sha256(str(text).encode()).hexdigest()[:8]})"
        for path, text in side.inputs.items()
        if path.startswith("patches/")
    }


def _packages(before: Tree, after: Tree) -> list[str]:
    old, new = _versions(before), _versions(after)
    if not old:
        return []
    return [
        f"package: {name} {old.get(name, 'none')} -> {new.get(name, 'none')}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def _versions(inputs: Tree) -> dict[str, str]:
    """Package to what is pinned of it: several versions where machines differ."""
    found: dict[str, list[str]] = {}
    for file in ("lock.txt", "plugins.txt"):
        for pin in locks.pins(_text(inputs, file)):
            found.setdefault(pin.name, []).append(pin.version)
    return {name: " or ".join(versions) for name, versions in found.items()}


_SHOWN = {"serve.yaml": "flags", "vllm.env": "environment", "vllm.service": "unit"}
_DERIVED = "GENERATION_DIGEST="


def _told(side: Side) -> dict[str, str]:
    """What the server is told, without the release's name in its paths: that is shown before."""
    texts = {name: _text(side.generation, name) for name in _SHOWN if name in side.generation}
    return {name: text.replace(side.release(), "RELEASE") for name, text in texts.items()}


def _files(before: Tree, after: Tree) -> list[str]:
    """The lines by which what the server is told differs."""
    lines = []
    for path, old, new in differences(before, after):
        changed = [f"- {line.strip()}" for line in old if line not in new]
        changed += [f"+ {line.strip()}" for line in new if line not in old]
        lines += [f"{_SHOWN[path]}: {line}" for line in changed if _DERIVED not in line]
    return lines


def _text(tree: Tree, path: str) -> str:
    found = tree.get(path, "")
    return "" if isinstance(found, Link) else found
