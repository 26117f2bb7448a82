"""What is installed and loaded: is it what the build and the patches left?"""

from collections.abc import Iterator, Sequence

from tasks.shared.facts.doctor import LogReport, ModelReport, ReleaseReport, Report
from tasks.shared.health.wanted import Wanted
from tasks.shared.host_checks.findings import Finding, ok, problem, warning

_SHOWN = 3


def judge(report: Report, _wanted: Wanted) -> Iterator[Finding]:
    """Release, patches, what the server says that it is and what its log shows, model."""
    if report.release is not None:
        yield from _release(report.release)
        yield _patches(report.release)
        yield from _version(report.version, report.release)
    if report.log is not None:
        yield from _log(report.log)
    if report.model is not None:
        yield _model(report.model)


def some(names: Sequence[str]) -> str:
    """The first few of them, and how many more there are."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _release(release: ReleaseReport) -> Iterator[Finding]:
    what = f"release {release.name}"
    again = (
        f"sudo systemctl stop vllm && sudo rm -r /opt/vllm/releases/{release.name}, then deploy.py "
        "builds it anew; a change of your own belongs into files/patches"
    )
    if release.damage:
        yield problem(what, release.damage, "as it was built", again)
    for paths, fault in (
        (release.altered, "was changed on the disk"),
        (release.gone, "runs in the server, and was replaced or removed on the disk"),
        (release.unlisted, "runs in the server, and is of no package"),
    ):
        if paths:
            yield problem(what, f"{some(paths)} {fault}", "as it was built", again)
    if not (release.damage or release.altered or release.gone or release.unlisted):
        loaded = f", {release.loaded} loaded modules hashed" if release.loaded else ""
        yield ok(what, f"as it was built{loaded}")


def _patches(release: ReleaseReport) -> Finding:
    if not release.patches:
        return ok("patches", "the release has none")
    listed = ", ".join(f"{name} ({state})" for name, state in release.patches.items())
    return ok("patches", f"{len(release.patches)}: {listed}")


def _version(said: str | None, release: ReleaseReport) -> Iterator[Finding]:
    if said is None:
        return
    if said == release.installed_version:
        yield ok("version", said)
    else:
        yield problem(
            "version",
            f"the server says {said}",
            f"{release.installed_version}, its release's",
            "tasks/restart_vllm.py: another program answers in its place, or an older one runs",
        )


def _log(log: LogReport) -> Iterator[Finding]:
    if not log.complete:
        yield ok("start", "the journal has lost the beginning of this start: not compared")
        return
    for line in log.unproven:
        yield problem(
            "start", line, "what was asked for, in force", "journalctl -u vllm says what it fell to"
        )
    for line in log.problems:
        yield problem("start", line.partition(": ")[0], "no smaller", "free the GPU, then restart")
    for line in log.warnings:
        yield warning("start", line, "as before", "nvidia-smi shows who else uses the GPU")
    if not (log.unproven or log.problems or log.warnings):
        yield ok("start", log.start)


def _model(model: ModelReport) -> Finding:
    what = "model"
    if model.problems:
        return problem(
            what,
            f"{model.folder}: {some(model.problems)}",
            "complete, and readable for the service",
            "deploy.py brings it anew; one at host: is yours to mend",
        )
    if not model.same:
        return problem(
            what,
            f"{model.folder} was changed since the deploy",
            "the weights that its KV cache is of",
            "the next start is refused: deploy.py, then tasks/restart_vllm.py",
        )
    return ok(what, f"{model.folder} is complete")
