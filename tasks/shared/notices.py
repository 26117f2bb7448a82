"""What an operator has to be told at the next occasion."""

import datetime

from pyinfra import host, logger

from tasks.shared.facts.hostkit import FailureNote, GuardNote, HostStateFact

_shown: set[str] = set()


def show() -> None:
    """Show what happened last on the host at hand, once a run, unless it was seen or is old.

    That is the newest failure, and what the memory guard has ended beside a server that went on.
    """
    if host.name in _shown:
        return
    _shown.add(host.name)
    state = host.get_fact(HostStateFact)
    lines = failure_lines(state.failure) if state.failure else []
    lines += guard_lines(state.guard) if state.guard else []
    for line in lines:
        host.log_styled(line, fg="yellow", log_func=logger.warning)


def failure_lines(failure: FailureNote) -> list[str]:
    """A failure in a few lines: what, when, why, what to do."""
    when = _when(failure.at, failure.count)
    now = "it has served since" if failure.recovered else "it has not served since"
    lines = [
        f"The server failed at {when}: {failure.what} ({failure.kind}); {now}",
        f"  {failure.cause}",
        f"  To do: {failure.remedy}",
    ]
    if failure.changed:
        changed = ", ".join(f"{name} {versions}" for name, versions in failure.changed.items())
        lines.append(f"  Changed since it had served: {changed}")
    lines.append(f"  Kept in {failure.folder}; `hostkit failures --seen` ends this message")
    return lines


def guard_lines(note: GuardNote) -> list[str]:
    """What the guard did beside a server that went on, and what to do."""
    return [
        f"Memory ran out at {_when(note.at, note.count)}: {note.reason}",
        "  To do: see what else took it; a first request of another kind compiles again, and each "
        "compiler may take 12 GiB (max_jobs, memory_floor_mib)",
        "  `hostkit failures --seen` ends this message, as does a restart that ends well",
    ]


def _when(at: float, count: int) -> str:
    when = datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return when + (f", {count} times" if count > 1 else "")
