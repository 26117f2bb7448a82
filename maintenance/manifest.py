"""The compatibility manifest of a version that is being adopted: its start, and what it leaves out.

A word is a rule that speaks of the flag or variable, or an entry of the version's list `judged`.
"""

import shutil
from collections.abc import Sequence

from maintenance.flags import Change
from tasks.shared.engine import compat, serving


def unjudged(changes: Sequence[Change], manifest: compat.Manifest) -> list[Change]:
    """The changes of which the manifest says nothing."""
    spoken_of = {_subject(key) for rule in manifest.rules.values() for key in rule.when}
    return [
        change
        for change in changes
        if change.subject not in manifest.judged and _key(change) not in spoken_of
    ]


def broken(changes: Sequence[Change], manifest: compat.Manifest) -> list[str]:
    """What this deploy still uses and the version has no more."""
    lines = []
    for change in changes:
        if change.after is not None or change.kind == "default":
            continue
        if change.kind == "flag" and change.name in serving.DECIDED_FLAGS:
            lines.append(f"{change.subject} is gone, and tasks/shared/engine/serving.py sets it")
        lines += [
            f"{change.subject} is gone, and the rule {rule.name} of files/compat speaks of it"
            for rule in manifest.rules.values()
            if _key(change) in {_subject(key) for key in rule.when}
        ]
    return lines


def start(version: str, base: str, changes: Sequence[Change]) -> bool:
    """Write the manifest of a version that has none; False where there is one: it is left alone."""
    folder = compat.MANIFESTS / f"vllm-{version}"
    if folder.is_dir():
        return False
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    before = (compat.MANIFESTS / f"vllm-{base}" / "names").read_text(encoding="utf-8")
    (fresh / "names").write_text(names(before, changes), encoding="utf-8")
    left = unjudged(changes, compat.manifest(base))
    text = _CHANGES.format(version=version, base=base, lines="".join(map(_open, left)))
    (fresh / "changes.toml").write_text(text, encoding="utf-8")
    fresh.rename(folder)
    compat.manifest.cache_clear()
    return True


_CHANGES = """\
# What was read and measured for {base} is taken to hold for {version} as well.
inherits = "{base}"

# Flags, defaults and variables that are new (+), gone (-) or others (~) than those of {base}.
# Write a rule or a change for what matters, and take away the # of what has been judged.
judged = [
{lines}]
"""


def names(before: str, changes: Sequence[Change]) -> str:
    """The file `names` of a version, out of that of the version before it.

    A new flag gets no short spelling; names.py prints them all, with the built release.
    """
    lines = {tuple(line.split()[:2]): line for line in before.splitlines()}
    # Most flags take their default from a field of a configuration class.
    fields = {change.name: change.after for change in changes if change.kind == "default"}
    for change in changes:
        if change.kind == "default":
            continue
        word = "flag" if change.kind == "flag" else "env"
        if change.after is None:
            lines.pop((word, change.name), None)
        elif change.before is None:
            default = fields.get(change.after or "", change.after)
            no = f" no-{change.name}" if default in ("True", "False") else ""
            lines[word, change.name] = f"{word} {change.name}{no if word == 'flag' else ''}"
    ordered = sorted(lines.items(), key=lambda item: (item[0][0] == "env", item[0][1]))
    return "".join(f"{line}\n" for _, line in ordered)


def _open(change: Change) -> str:
    return f'    # "{change.subject}",  # {change.line}\n'


def _subject(key: str) -> str:
    """What a condition of a rule is about: a flag without what is nested in it, or env.NAME."""
    return key if key.startswith("env.") else key.partition(".")[0]


def _key(change: Change) -> str:
    """The same for a change; a default of a configuration class is that of the flag's field."""
    if change.kind == "variable":
        return f"env.{change.name}"
    return change.name.rpartition(".")[2].replace("_", "-")
