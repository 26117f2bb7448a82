"""What an earlier server left, and who may read what only root should."""

from collections.abc import Iterator

from tasks.shared.credentials import ON_HOST
from tasks.shared.facts.doctor import Report
from tasks.shared.health.code import some
from tasks.shared.health.wanted import HOSTKIT, Wanted
from tasks.shared.host_checks.findings import Finding, ok, problem


def judge(report: Report, _wanted: Wanted) -> Iterator[Finding]:
    """Shared memory, processes, secrets."""
    if report.shm:
        yield problem(
            "/dev/shm",
            f"a dead server left {some(report.shm)}",
            "nothing that nobody has mapped",
            f"{HOSTKIT} sweep",
        )
    elif report.shm is not None:
        yield ok("/dev/shm", "nothing of a dead server lies there")
    if report.orphans:
        yield problem(
            "processes",
            f"of a server that no unit knows: {some(report.orphans)}",
            "none",
            f"sudo kill {report.orphans[0].partition(' ')[0]}: it may hold GPU memory",
        )
    elif report.orphans is not None:
        yield ok("processes", "none of an earlier server")
    for path in ON_HOST:
        held = (report.files or {}).get(path)
        if held is not None and (held.owner, held.mode) != ("root", "600"):
            yield problem(
                "secrets",
                f"{path} is {held.owner}'s, mode {held.mode}",
                "root's, mode 600",
                f"sudo chown root: {path} && sudo chmod 600 {path}; if others could read it, "
                "tasks/rotate_api_key.py",
            )
        elif held is not None:
            yield ok("secrets", f"{path} is root's alone")
