"""Is this host one that the deploy can work on? Pure judgement of what was found.

`judge` says all of it at once; what stops a run is `blocking`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tasks.shared.facts.machine import Machine
from tasks.shared.host_checks import gpus, secret_files, server, storage, system, wsl
from tasks.shared.host_checks.findings import Finding

if TYPE_CHECKING:
    from tasks.shared.settings import Settings


def judge(machine: Machine, settings: "Settings") -> list[Finding]:
    """Everything that is known about the host, in the order of its layers."""
    return [
        finding
        for layer in (system, wsl, gpus, storage, server, secret_files)
        for finding in layer.judge(machine, settings)
    ]


def blocking(findings: Sequence[Finding], *, cures_follow: bool) -> list[Finding]:
    """The findings that must stop a run.

    Where the tasks that cure follow, or nothing is changed at all, what they cure does not.
    """
    return [
        finding
        for finding in findings
        if finding.level == "refusal" and not (cures_follow and finding.cured_by)
    ]
