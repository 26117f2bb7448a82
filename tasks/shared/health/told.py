"""What the running server was told, against its generation: command line, files, environment."""

from collections.abc import Iterator

from tasks.shared.facts.doctor import ProcessReport, Report
from tasks.shared.generation.generations import GENERATIONS_DIR
from tasks.shared.health.code import some
from tasks.shared.health.wanted import Wanted
from tasks.shared.host_checks.findings import Finding, ok, problem

_LONGEST = 80
AGAIN = "deploy.py, then tasks/restart_vllm.py; a value of your own belongs into the settings"


def judge(report: Report, _wanted: Wanted) -> Iterator[Finding]:
    """Files of the generation, command line and environment of the process."""
    if report.edited:
        yield problem(
            f"generation {report.generation}",
            f"{some(report.edited)} was edited by hand",
            "as it was staged",
            AGAIN,
        )
    elif report.edited is not None and report.generation is not None:
        yield ok(f"generation {report.generation}", "its files are as they were staged")
    if report.process is not None and report.generation is not None:
        yield from _command(report.process, report.generation, str(report.note.get("release")))
        yield from _environment(report.process)


def _command(process: ProcessReport, generation: int, release: str) -> Iterator[Finding]:
    config = f"serve --config {GENERATIONS_DIR}/{generation}/serve.yaml"
    if process.command.endswith(f"/releases/{release}/venv/bin/vllm {config}"):
        yield ok("command line", config)
    else:
        yield problem(
            "command line",
            f"process {process.pid} is {process.command[:_LONGEST]}",
            f"release {release}'s vllm {config}",
            AGAIN,
        )


def _environment(process: ProcessReport) -> Iterator[Finding]:
    for name, found, meant in process.environment:
        if meant is None:
            yield problem(
                "environment", f"{name} is set, by nobody's setting", "nothing of the kind", AGAIN
            )
        else:
            shown = "not set" if found is None else f"{found[:_LONGEST]!r}"
            yield problem("environment", f"{name} is {shown}", f"{meant[:_LONGEST]!r}", AGAIN)
    if not process.environment:
        yield ok("environment", "the server's own is as its generation says")
