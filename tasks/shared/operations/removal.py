"""Taking over from a server that is not ours, and removing ours."""

from collections.abc import Sequence

from pyinfra import host, logger, state
from pyinfra.api import operation

from tasks.shared.facts.answers import NO_ANSWER
from tasks.shared.facts.hostkit import HostkitInstalled, HostkitProblems, HostStateFact
from tasks.shared.generation.generations import Generation
from tasks.shared.generation.switches import Switch, operator
from tasks.shared.operations.common import (
    NOT_STAGED,
    Commands,
    is_news,
    leave_open,
    refuse,
    staged_number,
)
from tasks.shared.operations.hostkit import Hostkit
from tasks.shared.operations.jobs import run_job


@operation()
def adopted(server: str | None, generation: Generation, switch: Switch) -> Commands:
    """Replace a vLLM that somebody runs by hand with a staged generation, in one watched start.

    It is backed up before, and runs again when ours fails or is uninstalled.

    + server: its unit, or its process id; None shows those that there are, and refuses
    + generation: the one that should run
    + switch: how

    removal.adopted(name="Take over", server="my-llm.service", generation=wanted, switch=how)
    """
    present = host.get_fact(HostStateFact)
    if present.unknown:
        yield from leave_open(present.unknown)
        return
    if server is None:
        shown = host.get_fact(HostkitProblems, question=["foreign", "--fail"])
        for line in shown:
            host.log_styled(line, fg="yellow", log_func=logger.warning)
        yield from refuse(
            "name the one to replace: --data adopt=NAME"
            if shown
            else "no vLLM runs here but ours: there is none to take over from"
        )
        return
    if present.running is not None and present.answering:
        host.noop("ours serves already")
        return
    number = staged_number(present, generation.digest)
    if number is None:
        yield from refuse(NOT_STAGED)
        return
    options = ["--deadline", str(switch.deadline_s), "--by", operator()]
    yield from run_job(f"adopt-{number}", "adopt", server, str(number), *options)


@operation()
def uninstalled(also: Sequence[str], kv_dir: str, *, force: bool) -> Commands:
    """Ensure that nothing of the deploy is on the host but what is kept, which is listed.

    + also: of user, packages, models and kv what is removed, too
    + kv_dir: where the SSD tier lies
    + force: although the server is in use

    removal.uninstalled(name="Uninstall", also=[], kv_dir="/var/lib/vllm/kv", force=False)
    """
    if not host.get_fact(HostkitInstalled):
        if also and is_news("uninstalled"):
            host.log("nothing of it is installed; what an earlier run kept is yours to remove")
        host.noop("nothing of it is installed")
        return
    if unknown := host.get_fact(HostStateFact).unknown:
        yield from leave_open(unknown)
        return
    words = [word for each in also for word in ("--also", each)]
    words += ["--kv-dir", kv_dir]
    if not state.is_executing:
        _say_what_would_go(["uninstall", *words, "--dry-run"])
    words += ["--by", operator(), *(["--force"] if force else [])]
    # Not as a job: hostkit could not be asked about it any more.
    removing = Hostkit("uninstall", *words)
    yield removing
    for line in removing.lines:
        host.log(line)


def _say_what_would_go(question: list[str]) -> None:
    lines = host.get_fact(HostkitProblems, question=question)
    if not lines[0].startswith(NO_ANSWER) and is_news("uninstall"):
        for line in lines:
            host.log(line)
