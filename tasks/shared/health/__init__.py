"""Is this host healthy, and what a deploy would find to do? Pure judgement of what was found.

Each module judges one side of it; the findings are those of a check of the host, see host_checks.
"""

from collections.abc import Sequence
from dataclasses import replace

from tasks.shared.facts.doctor import Report
from tasks.shared.health import code, drift, leftovers, service, tiers, told
from tasks.shared.health.wanted import Wanted
from tasks.shared.host_checks.findings import Finding, problem

DEPLOY = "deploy.py"
_INSTALLS = f": {DEPLOY} installs it again"


def judge(report: Report, wanted: Wanted) -> list[Finding]:
    """Everything that is known about what runs on a host, in the order of its layers."""
    if report.unknown is not None:
        why = report.unknown.removesuffix(_INSTALLS)
        return [problem("hostkit", why, "this repository's", f"{DEPLOY} installs it")]
    layers = (service, code, told, drift, tiers, leftovers)
    found = [finding for layer in layers for finding in layer.judge(report, wanted)]
    return [*found, *(_unknown(question, why) for question, why in report.errors.items())]


def _unknown(question: str, why: str) -> Finding:
    return problem(
        f"question {question!r}",
        f"could not be answered: {why}",
        "an answer",
        f"{DEPLOY} mends what it finds damaged; what stays is in the way of the next start",
    )


def as_problems(findings: Sequence[Finding]) -> list[Finding]:
    """What would keep a deploy from working is wrong with a host that runs, too."""
    return [
        replace(each, level="problem") if each.level == "refusal" else each for each in findings
    ]
