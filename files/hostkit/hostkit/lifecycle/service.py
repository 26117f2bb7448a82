"""Starts the service where nothing serves, and asks what serves."""

import argparse
import contextlib
import time
from collections.abc import Iterator
from typing import Any

from hostkit.generation import generations, start
from hostkit.host import lock, paths, units
from hostkit.host.jobs import progress
from hostkit.host.process import Failure, read_json
from hostkit.lifecycle import settle, switch, watch
from hostkit.release import installed
from hostkit.serving import goodstart, server


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("activate", help="make a generation current and start it")
    parser.add_argument("generation", type=int)
    parser.add_argument("--by", default="", help="who asks")
    parser.set_defaults(run=lambda args: activate(args.generation, args.by))

    parser = subparsers.add_parser("verify", help="wait until the server answers a completion")
    parser.add_argument("--deadline", type=float, required=True, help="seconds")
    parser.set_defaults(run=lambda args: verify(args.deadline))

    parser = subparsers.add_parser("probe", help="does the server answer a completion?")
    parser.set_defaults(run=lambda _args: probe())

    parser = subparsers.add_parser("ask", help="ask the server one question")
    parser.add_argument("question")
    parser.set_defaults(run=ask)

    parser = subparsers.add_parser("install-unit", help="install the current generation's unit")
    parser.set_defaults(run=lambda _args: install_unit())


def activate(number: int, by: str) -> int:
    """Start a host that serves nothing. Whatever is left of a failing server is stopped first."""
    with lock.held(f"starting generation {number}", by) as left:
        if left is not None:
            settle.tidy(left)
        switch.check_before_stop(number)
        switch.stop()
        watch.allow_restarts()
        generations.switch(number)
        switch.install_unit(number)
        try:
            switch.start()
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
    with _stopping_on_failure(current):
        this = watch.attempt()
        found = watch.until_answering(this, deadline_s)
        seconds = time.monotonic() - this.began
        progress(f"generation {found.generation} answers after {seconds:.0f} s")
        generations.mark_verified(found.generation)
        if goodstart.of_generation(found.generation) is None:
            log = units.journal(this.invocation)
            goodstart.record(found.generation, goodstart.of(log, seconds))
    return 0


@contextlib.contextmanager
def _stopping_on_failure(current: int) -> Iterator[None]:
    """Any failure stops the start that was watched, and no later one."""
    watched = units.show("InvocationID")["InvocationID"]
    try:
        yield
    except Exception as error:
        superseded = units.show("InvocationID")["InvocationID"] != watched
        if generations.is_verified(current) or superseded:
            raise Failure(f"the server does not answer: {error}") from error
        units.systemctl("stop", paths.UNIT)
        raise Failure(f"the server did not start and was stopped: {error}") from error


def probe() -> int:
    """Ask the server for a completion; Failure says what is wrong with it or its release."""
    found = server.find()
    server.probe(found)
    release = paths.RELEASES / generations.note(found.generation)["release"]
    if wrong := installed.unpatched(release, read_json(release / "manifest.json")):
        raise Failure(f"release {release.name} answers, but {wrong}: deploy again, then restart")
    return 0


def ask(args: argparse.Namespace) -> int:
    print(server.chat(server.find(), args.question))
    return 0


def install_unit() -> int:
    """Put the unit right after it was edited by hand, or an interrupted switch left the old one.

    Where `current` was lost, what runs is current again: the next start needs both.
    """
    with lock.held("installing the unit"):
        current = generations.linked(paths.CURRENT)
        if current is None:
            running = start.running_generation(int(units.ask("MainPID")["MainPID"] or 0))
            if running in generations.numbers():
                generations.restore(running)
                current = running
        if current is not None:
            switch.install_unit(current)
    return 0
