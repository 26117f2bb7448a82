"""Changes what serves: idle check, stop, one watched start, and back again when that fails.

Runs as a transient unit, so that it comes to its end without the connection that asked for it; a
run that is killed is put right by settle.py.
"""

import argparse
import contextlib
import time
from dataclasses import dataclass
from typing import Any

from hostkit.generation import gate, generations, preflight
from hostkit.host import lock, paths, room, units
from hostkit.host.jobs import progress
from hostkit.host.process import Failure
from hostkit.lifecycle import settle
from hostkit.lifecycle import watch as watching
from hostkit.measure import pace, quality
from hostkit.serving import goodstart, idle, server, warmup

CLEAN_S = 15.0
"""How long the processes and the socket of a stopped server may linger."""


@dataclass(frozen=True)
class Order:
    """What the operator asked for; times in seconds.

    `doing` is shown to a second operator and reads after "is"; `wait_s` is for the server to become
    idle; `go_back` brings the generation before into service again when the new one fails, which it
    also does when it is slower by more than `bench_gate` percent. One on `trial` never counts as
    one that has served, so that whatever interrupts it goes back, too.
    """

    generation: int
    deadline_s: float
    wait_s: float = 0
    force: bool = False
    by: str = ""
    doing: str = "restarting the server"
    go_back: bool = False
    pool_tolerance: float = 10
    quality: bool = False
    bench_gate: float | None = None
    trial: bool = False


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("switch", help="one watched start of a generation")
    parser.add_argument("generation", type=int)
    parser.add_argument("--deadline", type=float, required=True, help="seconds until it answers")
    parser.add_argument("--wait", type=float, default=0, help="seconds for it to become idle")
    parser.add_argument("--force", action="store_true", help="although it is in use")
    parser.add_argument("--by", default="", help="who asks")
    parser.add_argument("--doing", default="restarting the server")
    parser.add_argument("--go-back", action="store_true", help="to the one before when it fails")
    parser.add_argument("--pool-tolerance", type=float, default=10, help="percent")
    parser.add_argument("--quality", action="store_true", help="compare its answers, too")
    parser.add_argument("--bench-gate", type=float, help="percent by which it may be slower")
    parser.set_defaults(run=lambda args: switch(_order(args)))

    parser = subparsers.add_parser("check-switch", help="may a switch stop the server now?")
    parser.add_argument("generation", type=int)
    parser.add_argument("--force", action="store_true", help="although it is in use")
    parser.set_defaults(run=check)


def _order(args: argparse.Namespace) -> Order:
    return Order(
        args.generation,
        args.deadline,
        args.wait,
        args.force,
        args.by,
        args.doing,
        args.go_back,
        args.pool_tolerance,
        args.quality,
        args.bench_gate,
    )


def check(args: argparse.Namespace) -> int:
    """Failure says what a switch would refuse, or stop for nothing."""
    if not args.force:
        idle.require(0)
    check_room(args.generation)
    check_before_stop(args.generation)
    return 0


def check_room(number: int) -> None:
    """Failure when it could not be kept that this generation serves, and what it was like."""
    room.require(generations.folder(number), paths.OPT, paths.HEALTH, paths.RUN)


def check_before_stop(number: int) -> None:
    """Failure says what keeps this generation from serving; nothing has been stopped by then."""
    units.require_journal()
    gate.check(number)
    preflight.again(number)
    server.require_port(generations.note(number)["port"])


def switch(order: Order) -> int:
    """Carry out an order. Failure says what serves then, and the first failure's own cause."""
    with lock.held(order.doing, order.by) as left:
        unused = left is not None and settle.tidy(left)
        check_room(order.generation)
        check_before_stop(order.generation)
        score = _score_before() if order.quality and not unused else None
        back = generations.to_go_back_to(order.generation) if order.go_back else None
        progress(budget(order.generation))
        if not (order.force or unused):
            idle.require(order.wait_s, progress)
        speed = None
        if order.bench_gate is not None and not unused:
            speed = _speed_before()
            if not order.force:
                # Somebody may have come meanwhile.
                idle.require(order.wait_s, progress)
        _Switch(order, back, score, speed).carry_out()
    return 0


def held(number: int, deadline_s: float, *, trial_beside: int | None = None) -> None:
    """One watched start of a generation, for a caller that holds the lock.

    One that is on trial beside another makes room for that again when it fails.
    """
    check_before_stop(number)
    order = Order(number, deadline_s, pool_tolerance=100, trial=trial_beside is not None)
    _Switch(order, trial_beside, None, None).carry_out()


class _Switch:
    """The part of a switch during which the host may be without a server."""

    def __init__(
        self, order: Order, back: int | None, score: float | None, speed: pace.Pace | None
    ) -> None:
        self.order = order
        self.back = back
        self.score = score
        self.speed = speed
        self.current = generations.linked(paths.CURRENT)
        self.previous = generations.linked(paths.PREVIOUS)
        self.stopped_at = time.monotonic()

    def carry_out(self) -> None:
        number = self.order.generation
        progress("stopping: running requests may finish")
        stop()
        try:
            self._start(number)
        except Exception as error:
            units.systemctl("stop", paths.UNIT)
            if self.back is None:
                watching.allow_restarts()
                raise Failure(f"the server did not start and was stopped: {error}") from error
            self._go_back(self.back, error)
        if not self.order.trial:
            generations.mark_verified(number)
        watching.allow_restarts()

    def _start(self, number: int) -> None:
        generations.switch(number)
        install_unit(number)
        usual = goodstart.last_good(number, self.current)
        found, seconds = start_watched(number, self.order.deadline_s, _seconds(usual))
        down = time.monotonic() - self.stopped_at
        progress(f"generation {number} answers after {seconds:.0f} s")
        progress(f"{down:.0f} s without a server")
        warmup.run(found)
        self._compare(number, found, seconds, usual)

    def _compare(
        self, number: int, found: server.Server, seconds: float, usual: goodstart.Start | None
    ) -> None:
        log = units.journal(watching.attempt().invocation)
        score = quality.measure(found) if self.order.quality else quality.baseline(number)
        now = goodstart.of(log, seconds, server.metrics(found), score)
        progress(goodstart.describe(now))
        warnings: list[str] = []
        failures: list[str] = []
        if usual is not None:
            warnings, failures = goodstart.compare(now, usual, self.order.pool_tolerance)
        if score is not None and (why := quality.worse(score, self.score)):
            failures.append(why)
        if self.order.bench_gate is not None and not failures:
            said, too_slow = pace.compare(pace.measure(found), self.speed, self.order.bench_gate)
            if too_slow:
                failures.append(said)
            else:
                progress(said)
        for warning in warnings:
            progress(f"warning: {warning}")
        if failures:
            raise watching.StartFailed("; ".join(failures))
        goodstart.record(number, now)

    def _go_back(self, back: int, error: Exception) -> None:
        number = self.order.generation
        progress(f"generation {number} failed: {error}")
        progress(f"going back to generation {back}")
        generations.restore(back, self.previous if self.previous != number else None)
        install_unit(back)
        usual = goodstart.last_good(back, None)
        try:
            start_watched(back, self.order.deadline_s, _seconds(usual))
        except Exception as second:
            # It has served before: systemd may try on, within the start limit.
            watching.allow_restarts()
            with contextlib.suppress(Failure):
                units.systemctl("start", "--no-block", paths.UNIT)
            raise Failure(
                f"generation {number} failed ({error}), and generation {back} does not answer "
                f"either ({second}): systemd goes on starting it"
            ) from error
        watching.allow_restarts()
        down = time.monotonic() - self.stopped_at
        raise Failure(
            f"generation {number} failed and generation {back} serves again, after {down:.0f} s "
            f"without a server: {error}"
        ) from error


def _score_before() -> float | None:
    """What the server that is going to be stopped scores; None when none answers."""
    try:
        found = server.find()
        known = quality.baseline(found.generation)
        if known is not None:
            return known
        progress("asking the server that runs, to compare with")
        return quality.measure(found)
    except server.NotAnswering as error:
        progress(f"warning: there is nothing to compare the answers with: {error}")
        return None


def _speed_before() -> pace.Pace | None:
    """The speed of the server that is going to be stopped; None when it cannot be told."""
    if why := idle.busy():
        progress(f"warning: there is nothing to compare the speed with: {why}")
        return None
    try:
        return pace.measure(server.find())
    except server.NotAnswering as error:
        progress(f"warning: there is nothing to compare the speed with: {error}")
        return None


def _seconds(usual: goodstart.Start | None) -> float | None:
    return usual.ready_s if usual else None


def stop() -> None:
    """Stop the service, and make sure that nothing of it is left on the host."""
    if units.show("LoadState")["LoadState"] == "not-found":
        return
    units.systemctl("stop", paths.UNIT)
    ends = time.monotonic() + CLEAN_S
    while left := units.processes_of():
        if time.monotonic() > ends:
            named = ", ".join(f"{pid} ({units.command_line(pid)[:60]})" for pid in sorted(left))
            raise Failure(f"the service is stopped, but of it are left: process {named}")
        time.sleep(0.2)


def install_unit(number: int) -> None:
    """Make a generation's unit the one that systemd works with."""
    text = generations.unit(number)
    if text is not None:
        units.install(text)


def start_watched(
    number: int, deadline_s: float, usual_s: float | None = None
) -> tuple[server.Server, float]:
    """The one start of a generation, not repeated by systemd; the server and its start's seconds.

    Raises StartFailed with the cause.
    """
    watching.hold_restarts()
    start()
    this = watching.attempt()
    found = watching.until_answering(this, deadline_s, usual_s)
    if found.generation != number:
        raise watching.StartFailed(f"generation {found.generation} answers instead of {number}")
    return found, time.monotonic() - this.began


def start() -> None:
    """Start the unit whatever its count of starts says; StartFailed when systemd cannot."""
    # A unit that systemd has not loaded has no count of starts to forget, and is refused here.
    with contextlib.suppress(Failure):
        units.systemctl("reset-failed", paths.UNIT)
    try:
        units.systemctl("start", paths.UNIT)
    except Failure as failure:
        raise watching.StartFailed(units.complaint()) from failure


def budget(number: int) -> str:
    """What systemd's start limit allows, and what has been used of it."""
    limits = units.limits(generations.unit(number) or "")
    if limits is None:
        return "this unit has no start limit"
    burst, interval_s = limits
    used = units.starts(interval_s)
    return (
        f"start limit: {burst} starts in {interval_s} s, {used} made in that time; "
        "the count begins anew with this one"
    )
