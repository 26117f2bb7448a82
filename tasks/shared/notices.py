"""What an operator has to be told at the next occasion."""

import datetime

from pyinfra import host, logger

from tasks.shared.facts.hostkit import FailureNote, HostStateFact

_shown: set[str] = set()


def failures() -> None:
    """Show the newest failure of the host at hand, once a run, unless it was seen or is old."""
    if host.name in _shown:
        return
    _shown.add(host.name)
    failure = host.get_fact(HostStateFact).failure
    if failure is not None:
        for line in failure_lines(failure):
            host.log_styled(line, fg="yellow", log_func=logger.warning)


def failure_lines(failure: FailureNote) -> list[str]:
    """A failure in a few lines: what, when, why, what to do."""
    when = datetime.datetime.fromtimestamp(failure.at, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    often = f", {failure.count} times" if failure.count > 1 else ""
    now = "it has served since" if failure.recovered else "it has not served since"
    lines = [
        f"The server failed at {when}{often}: {failure.what} ({failure.kind}); {now}",
        f"  {failure.cause}",
        f"  To do: {failure.remedy}",
    ]
    if failure.changed:
        changed = ", ".join(f"{name} {versions}" for name, versions in failure.changed.items())
        lines.append(f"  Changed since it had served: {changed}")
    lines.append(f"  Kept in {failure.folder}; `hostkit failures --seen` ends this message")
    return lines
