"""Releases, generations and the server."""

import json

from pyinfra import host, logger, state
from pyinfra.api import operation
from pyinfra.facts.files import FileContents

from tasks.shared.facts.answers import NO_ANSWER, NOT_INSTALLED
from tasks.shared.facts.files import TextTree
from tasks.shared.facts.hostkit import HostkitProblems, HostState, HostStateFact
from tasks.shared.generation import generations, plans, rollout, steps
from tasks.shared.generation.generations import CURRENT, GENERATIONS_DIR, NOTE, Generation
from tasks.shared.generation.rollout import Batch
from tasks.shared.generation.switches import Switch, operator
from tasks.shared.operations import builds
from tasks.shared.operations.common import (
    NOT_STAGED,
    Commands,
    is_news,
    leave_open,
    publish_text,
    refuse,
    show_differences,
    staged_number,
)
from tasks.shared.operations.hostkit import Hostkit
from tasks.shared.operations.jobs import run_job
from tasks.shared.release.releases import INPUTS_DIR, Release
from tasks.shared.run import guards
from tasks.shared.trees import Tree, pack


@operation()
def release_built(release: Release) -> Commands:
    """Ensure that a release is built, tested and intact. What serves is not touched.

    + release: what to build; its inputs must lie on the host

    vllm.release_built(name="Build the release", release=releases.wanted(settings()))
    """
    problems = host.get_fact(HostkitProblems, question=["check-release", release.name])
    if not problems:
        host.noop(f"release {release.name} is built and intact")
        return
    if problems[0].startswith(NO_ANSWER):
        yield from leave_open(problems[0])
        return
    yield from builds.give(release.name)
    folder = f"{INPUTS_DIR}/{release.name}"
    what = ["build-release", folder, "--by", operator()]
    yield from run_job(f"build-{release.name}", *what)
    yield from builds.take(release.name)


@operation()
def generation_staged(generation: Generation) -> Commands:
    """Ensure that a generation lies on the host, ready to be started.

    Its own vLLM is asked first whether it would start with these settings: one that it refuses is
    not staged. One that serves and has lost its note alone gets it back: nothing else is missing.

    + generation: a release and what it is told

    vllm.generation_staged(name="Stage the generation", generation=wanted)
    """
    present = host.get_fact(HostStateFact)
    if present.unknown:
        yield from leave_open(present.unknown)
        return
    staged = present.find(generation.digest)
    if staged is not None:
        files = host.get_fact(TextTree, path=f"{GENERATIONS_DIR}/{staged}")
        # The note that a generation has served lies among them.
        if files.items() >= generation.files.items():
            host.noop(f"the generation is staged as {staged}")
            return
    torn = present.torn
    if torn is not None:
        kept = host.get_fact(TextTree, path=f"{GENERATIONS_DIR}/{torn}")
        if kept.items() >= generation.files_but_note.items():
            yield publish_text(f"{GENERATIONS_DIR}/{torn}/{NOTE}", generation.note)
            return
    number = present.next_number()
    path = f"{GENERATIONS_DIR}/{number}"
    before = host.get_fact(TextTree, path=CURRENT)
    old, new = generations.told(before), generations.told(generation.files)
    if before and is_news(path):
        what = "the API key or the model's weights are" if old == new else "what it is told is"
        host.log(f"Generation {number} is new; {what} not as in the current one")
    show_differences(path, old, new, compared=True)
    # In one command: what is left of one that dies is known by the lock that it held.
    yield Hostkit("stage", str(number), told=pack(generation.files))
    if state.is_executing:
        _say_what_was_not_checked(path)


def _say_what_was_not_checked(generation: str) -> None:
    answer = json.loads(
        "".join(host.get_fact(FileContents, path=f"{generation}/answer.json") or "{}")
    )
    if answer.get("verdict") == "unjudged":
        host.log_styled(
            f"{generation} was not checked by its own vLLM: {answer['reason']}",
            fg="yellow",
            log_func=logger.warning,
        )


@operation()
def started_if_nothing_serves(generation: Generation) -> Commands:
    """Make a staged generation current and start it, unless a server is serving.

    A server that serves is left alone: the operator is told which command switches to the staged
    generation.

    + generation: the one that should run

    vllm.started_if_nothing_serves(name="Start the server", generation=wanted)
    """
    present = host.get_fact(HostStateFact)
    if present.unknown:
        yield from leave_open(present.unknown)
        return
    number = staged_number(present, generation.digest)
    if number is None:
        yield from refuse(NOT_STAGED)
        return
    step = steps.next_step(present, number)
    if step is steps.Step.START:
        yield Hostkit("activate", str(number), "--by", operator())
    elif step is steps.Step.NOTHING:
        host.noop(f"generation {number} is the one that runs")
    else:
        goes_on = "goes on serving" if present.answering else "does not answer, but is left to run"
        host.log_styled(
            f"Generation {present.serving} {goes_on}. Generation {number} is staged; to "
            f"switch to it: {guards.command_for('tasks/restart_vllm.py')}",
            fg="yellow",
            log_func=logger.warning,
        )


@operation()
def answering(deadline_s: int, url: str, model: str) -> Commands:
    """Ensure that the server answers a real completion, waiting for a start that is under way.

    + deadline_s: seconds that the start may take in all
    + url: where its clients reach it, for the operator to read
    + model: what they call the model

    vllm.answering(name="Ask", deadline_s=1800, url="http://127.0.0.1:8000/v1", model="m")
    """
    present = host.get_fact(HostStateFact)
    if present.unknown:
        yield from leave_open(present.unknown)
        return
    known_good = present.running is not None and present.is_verified(present.running)
    if known_good and present.answering:
        # The completion itself is asked for in a real run only: a plan puts no load on a server.
        asked = state.is_executing
        problems = host.get_fact(HostkitProblems, question=["probe"]) if asked else []
        if not problems:
            _say_where(url, model)
            host.noop(f"generation {present.running} answers")
            return
        yield from refuse(problems[-1])
        return
    # A start has its own job: one left over from an earlier start must not be taken for it.
    job = f"verify-{present.invocation[:12] or 'none'}"
    yield from run_job(job, "verify", "--deadline", str(deadline_s))
    _say_where(url, model)


def _say_where(url: str, model: str) -> None:
    if state.is_executing and is_news(url):
        host.log(f"{model} answers at {url}")


@operation()
def switchable(generation: Generation, switch: Switch) -> Commands:
    """Refuse to go on when a restart could not switch to a generation now. Changes nothing.

    + generation: the one that should run
    + switch: how it would be done

    vllm.switchable(name="Make sure that it may be restarted", generation=wanted, switch=how)
    """
    present = host.get_fact(HostStateFact)
    if present.unknown:
        yield from leave_open(present.unknown)
        return
    number = present.find(generation.digest)
    if number is None:
        host.noop("it is staged in this run")
        return
    options = ["--force"] if switch.force else []
    problems = host.get_fact(HostkitProblems, question=["check-switch", str(number), *options])
    if problems:
        yield from refuse(problems[-1])


@operation()
def switched(
    generation: Generation, switch: Switch, batch: Batch, *, again: bool = True, here: bool = False
) -> Commands:
    """Switch to a staged generation in one watched start, once the server is idle.

    + generation: the one that should run
    + switch: how: whether to wait, to go back, …
    + batch: the hosts whose turn it is; nothing is done on others, nor after a host has failed
    + again: start it anew when it is the one that serves already
    + here: it lies on the host already, and nothing in this run stages it

    vllm.switched(name="Switch", generation=wanted, switch=how, batch=batch)
    """
    if host.name not in batch.hosts:
        host.noop(f"it is the turn of {', '.join(batch.hosts)}")
        return
    why_not = rollout.stopped_by()
    if why_not:
        yield from refuse(why_not)
        return
    present = host.get_fact(HostStateFact)
    if present.unknown:
        yield from leave_open(present.unknown)
        return
    if present.lock and not state.is_executing:
        host.log_styled(present.lock, fg="yellow", log_func=logger.warning)
    staged = present.find(generation.digest)
    number = staged if here else staged_number(present, generation.digest)
    if number is None:
        yield from refuse(NOT_STAGED)
        return
    if again:
        _say_what_it_leads_to(present, number, generation.files)
    if not again and number == present.running and present.answering:
        host.noop(f"generation {number} is the one that serves")
        return
    yield from run_job(f"switch-{number}", *switch.arguments(number))


@operation()
def rolled_back(to: int | None, switch: Switch, batch: Batch) -> Commands:
    """Switch back to a generation that has served: code and settings together.

    + to: its number; None: the one that served before the current one
    + switch: how
    + batch: the hosts whose turn it is

    vllm.rolled_back(name="Roll back", to=None, switch=how, batch=batch)
    """
    if host.name not in batch.hosts:
        host.noop(f"it is the turn of {', '.join(batch.hosts)}")
        return
    present = host.get_fact(HostStateFact)
    if present.unknown:
        yield from leave_open(present.unknown)
        return
    why_not = rollout.stopped_by() or steps.no_way_back(present, to)
    if why_not:
        yield from refuse(why_not)
        return
    number = to if to is not None else present.previous
    assert number is not None
    if number == present.running and present.answering:
        host.noop(f"generation {number} is the one that runs")
        return
    path = f"{GENERATIONS_DIR}/{number}"
    files = host.get_fact(TextTree, path=path)
    _say_what_it_leads_to(present, number, files)
    yield from run_job(f"switch-{number}", *switch.arguments(number))


def _say_what_it_leads_to(present: HostState, number: int, files: Tree) -> None:
    """In a plan: from which generation to which, and what differs between them."""
    if state.is_executing:
        return
    if number == present.running:
        told = [f"Generation {number} runs, and is started anew as it is"]
    else:
        before = host.get_fact(TextTree, path=CURRENT)
        told = [f"Generation {present.current} is replaced by generation {number}:"]
        told += [f"  {line}" for line in plans.between(before, files)]
    if is_news(told[0]):
        for line in told:
            host.log(line)


@operation()
def pruned(generations: int, releases: int, release: Release, generation: Generation) -> Commands:
    """Ensure that no more old generations and releases lie on the host than are to be kept.

    + generations: how many; the current one and the one before are kept besides
    + releases: how many; each that a kept generation needs is kept besides
    + release, generation: what the settings ask for, kept however old

    vllm.pruned(
        name="Prune", generations=10, releases=3, release=release, generation=generation
    )
    """
    counts = ["--generations", str(generations), "--releases", str(releases)]
    kept = ["--wanted", release.name, "--wanted-digest", generation.digest]
    question = ["retain", *counts, *kept]
    superfluous = host.get_fact(HostkitProblems, question=[*question, "--dry-run"])
    if superfluous in ([], [NOT_INSTALLED]):
        host.noop("nothing is kept longer than it should be")
        return
    if superfluous[0].startswith(NO_ANSWER):
        yield from leave_open(superfluous[0])
        return
    for line in superfluous:
        host.log(line)
    yield Hostkit(*question)
