"""Load tests: carried out on the host, judged and kept on this machine."""

import datetime
import json
from collections.abc import Generator, Mapping
from typing import Any

from pyinfra import host, logger, state
from pyinfra.api import FunctionCommand, QuoteString, StringCommand, operation

from tasks.shared.facts.hostkit import HostkitProblems, HostStateFact
from tasks.shared.facts.load_test import LoadTestOutlookFact, LoadTestResult
from tasks.shared.generation import switches
from tasks.shared.generation.generations import Generation
from tasks.shared.load_tests import kept, show
from tasks.shared.load_tests.choices import LoadTestSettings
from tasks.shared.load_tests.compare import compare
from tasks.shared.load_tests.plan import Waits, describe, estimate_s, plan
from tasks.shared.operations.common import Commands, is_news, refuse
from tasks.shared.operations.jobs import run_job

JOB = "load-test"
ORDERS = "/run/vllm/load-test"


@operation(is_idempotent=False)
def measured(
    settings: LoadTestSettings, waits: Waits, trials: Mapping[str, Generation]
) -> Commands:
    """Measure the server, keep the result, and fail when it is worse than the last good one.

    + settings: what is asked, and how much worse it may come out
    + waits: how long to wait for a busy server, and for a start where one is a part of the test
    + trials: staged generations to measure instead, by label; none: the one that serves

    load_test.measured(name="Measure", settings=settings, waits=Waits(0, 1800), trials={})
    """
    present = host.get_fact(LoadTestOutlookFact)
    if not present.generation:
        yield from refuse(f"not tested: {present.why_not}")
        return
    made = plan(settings, present)
    labels = [*trials]
    names = made.names_of(labels)
    try:
        last = kept.last_good(host.name, names)
    except ValueError as error:
        yield from refuse(str(error))
        return
    minutes = settings.load_test_minutes * max(1, len(labels))
    if is_news("what the load test will do"):
        estimate = estimate_s(names, last["rows"] if last else [])
        for line in describe(made, labels, estimate, minutes):
            host.log(line)
    if not names:
        yield from refuse("not tested: nothing is left to measure, see above")
        return
    if present.why_not and not state.is_executing:
        host.log_styled(present.why_not, fg="yellow", log_func=logger.warning)
    identity = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    order = f"{ORDERS}/{identity}.json"
    content = made.order(identity, switches.operator(), minutes, waits)
    content["trials"] = _numbered(trials) if trials else []
    script = f"umask 022 && mkdir -p {ORDERS} && rm -f {ORDERS}/*.json && cat > {order}"
    yield StringCommand("sh -c", QuoteString(script), _stdin=[json.dumps(content)])
    yield from run_job(JOB, "load-test", "run", order)
    yield from _judged(host.get_fact(LoadTestResult), last, settings, identity)


def _numbered(trials: Mapping[str, Generation]) -> list[dict[str, Any]]:
    """The generations as they lie on the host; in a plan some may not be staged yet."""
    present = host.get_fact(HostStateFact)
    return [
        {"label": label, "number": present.find(generation.digest)}
        for label, generation in trials.items()
    ]


def _judged(
    found: dict[str, Any],
    last: dict[str, Any] | None,
    settings: LoadTestSettings,
    identity: str,
) -> Generator[FunctionCommand, None, None]:
    """Keep and show a result; fail with what is worse than it was."""
    if found["order"]["id"] != identity:
        host.log(
            f"this is the test that {found['order']['by']} had begun before, its plan included"
        )
    at = datetime.datetime.fromtimestamp(found["began"], datetime.UTC)
    now = found | {"host": host.name, "at": at.strftime("%Y-%m-%d %H:%M UTC")}
    before = None if settings.load_test_baseline == "new" else last
    comparison = compare(now, before, settings.load_test_tolerance)
    now["verdict"] = "worse" if comparison.problems else "in order"
    file = kept.save(host.name, now | {"problems": comparison.problems})
    picture = file.with_suffix(".svg")
    drawn = f", the picture in {picture}" if show.picture(now, before, picture) else ""
    for line in [*show.table(now, comparison), *comparison.basis]:
        host.log(line)
    host.log(f"kept in {file}{drawn}")
    left = host.get_fact(HostkitProblems, question=["load-test", "left"])
    problems = [*comparison.problems, *left]
    for line in problems[:-1]:
        host.log_styled(line, fg="red", log_func=logger.error)
    if problems:
        yield from refuse(problems[-1])
