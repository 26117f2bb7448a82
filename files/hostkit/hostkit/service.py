"""Starts, watches and restarts the service."""

import argparse
import contextlib
import fcntl
import time
from collections.abc import Iterator
from typing import Any

from hostkit import gate, generations, paths, server, units, watch
from hostkit.jobs import progress
from hostkit.process import Failure

IDLE_SAMPLES = 2


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("activate", help="make a generation current and start it")
    parser.add_argument("generation", type=int)
    parser.set_defaults(run=lambda args: activate(args.generation))

    parser = subparsers.add_parser("verify", help="wait until the server answers a completion")
    parser.add_argument("--deadline", type=float, required=True, help="seconds")
    parser.set_defaults(run=lambda args: verify(args.deadline))

    parser = subparsers.add_parser("restart", help="one watched start of a generation")
    parser.add_argument("generation", type=int)
    parser.add_argument("--deadline", type=float, required=True, help="seconds")
    parser.add_argument("--force", action="store_true", help="although requests are running")
    parser.set_defaults(run=restart)

    parser = subparsers.add_parser("check-switch", help="may a restart stop the server now?")
    parser.add_argument("generation", type=int)
    parser.add_argument("--force", action="store_true", help="although requests are running")
    parser.set_defaults(run=check_switch)

    parser = subparsers.add_parser("probe", help="does the server answer a completion?")
    parser.set_defaults(run=lambda _args: probe())

    parser = subparsers.add_parser("ask", help="ask the server one question")
    parser.add_argument("question")
    parser.set_defaults(run=lambda args: ask(args.question))

    parser = subparsers.add_parser("install-unit", help="install the current generation's unit")
    parser.set_defaults(run=lambda _args: install_unit())


def activate(number: int) -> int:
    """Start a host that serves nothing. Whatever is left of a failing server is stopped first."""
    with _switch_lock():
        _check_before_stop(number)
        _switch(number)
        try:
            _start()
        except watch.StartFailed as error:
            units.systemctl("stop", paths.UNIT)
            raise Failure(f"the server did not start and was stopped: {error}") from error
    return 0


def verify(deadline_s: float) -> int:
    """Follow the start that is under way; its failure is shown.

    A generation that never served is stopped then. One that did may get over it: systemd goes on
    with it, within the start limit.
    """
    current = generations.linked(paths.CURRENT)
    if current is None or units.show("ActiveState")["ActiveState"] == "inactive":
        raise Failure(f"{paths.UNIT} is not running: deploy.py starts it")
    with _stopping_on_failure(unless_proven=current):
        _watch(deadline_s)
    return 0


def restart(args: argparse.Namespace) -> int:
    """Idle check, stop, switch, one watched start. The first failure stops the service."""
    with _switch_lock():
        if not args.force:
            require_idle()
        _check_before_stop(args.generation)
        progress("stopping: running requests may finish")
        _switch(args.generation)
        with _stopping_on_failure():
            _start()
            _watch(args.deadline, args.generation)
    return 0


def _check_before_stop(number: int) -> None:
    gate.check(number)
    server.require_port(generations.note(number)["port"])


def _switch(number: int) -> None:
    if units.show("LoadState")["LoadState"] != "not-found":
        units.systemctl("stop", paths.UNIT)
    generations.switch(number)
    _install_unit(number)


def _install_unit(number: int) -> None:
    text = generations.unit(number)
    if text is not None:
        units.install(text)


def _start() -> None:
    # A unit that systemd has not loaded has no count of starts to forget, and is refused here.
    with contextlib.suppress(Failure):
        units.systemctl("reset-failed", paths.UNIT)
    try:
        units.systemctl("start", paths.UNIT)
    except Failure as failure:
        raise watch.StartFailed(units.complaint()) from failure


def _watch(deadline_s: float, expected: int | None = None) -> None:
    this = watch.attempt()
    found = watch.until_answering(this, deadline_s)
    if expected not in (None, found.generation):
        raise watch.StartFailed(f"generation {found.generation} answers instead of {expected}")
    seconds = time.monotonic() - this.began
    progress(f"generation {found.generation} answers after {seconds:.0f} s")


@contextlib.contextmanager
def _stopping_on_failure(unless_proven: int | None = None) -> Iterator[None]:
    """Any failure stops the start that was watched, and no later one."""
    watched = units.show("InvocationID")["InvocationID"] if unless_proven is not None else None
    try:
        yield
    except Exception as error:
        proven = unless_proven is not None and generations.is_verified(unless_proven)
        superseded = watched is not None and units.show("InvocationID")["InvocationID"] != watched
        if proven or superseded:
            raise Failure(f"the server does not answer: {error}") from error
        units.systemctl("stop", paths.UNIT)
        raise Failure(f"the server did not start and was stopped: {error}") from error


def check_switch(args: argparse.Namespace) -> int:
    """Failure says what a restart would refuse, or stop for nothing."""
    if not args.force:
        require_idle()
    _check_before_stop(args.generation)
    return 0


def require_idle() -> None:
    """Failure unless nothing is served or two samples in a row find no request."""
    if units.show("ActiveState")["ActiveState"] != "active":
        return
    advice = "wait, or say --data force_restart=True"
    try:
        found = server.find()
        for sample in range(IDLE_SAMPLES):
            if sample:
                time.sleep(1)
            count = server.requests_in_flight(found)
            if count:
                raise Failure(f"not restarted: {count} requests run or wait; {advice}")
    except server.NotAnswering as error:
        raise Failure(
            f"not restarted: cannot tell whether it is idle ({error}); {advice}"
        ) from error


def probe() -> int:
    """Ask the running server for a completion; Failure says what is wrong with it."""
    server.probe(server.find())
    return 0


def ask(question: str) -> int:
    print(server.chat(server.find(), question))
    return 0


def install_unit() -> int:
    """Put the unit right after it was edited by hand, or an interrupted switch left the old one."""
    with _switch_lock():
        current = generations.linked(paths.CURRENT)
        if current is not None:
            _install_unit(current)
    return 0


@contextlib.contextmanager
def _switch_lock() -> Iterator[None]:
    """One change of the running server at a time; a lock of a dead process is none."""
    paths.RUN.mkdir(parents=True, exist_ok=True)
    with (paths.RUN / "switch.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure("another start or restart of the server is under way") from None
        yield
