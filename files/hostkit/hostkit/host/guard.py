"""The memory guard: ends compilers before they take the machine, and with it the server, down.

Beside the server it ends the compiler processes of the unit (a JIT build of FlashInfer's) and never
the engine; inside a job it ends what the job started. Either is recorded, with its reason.

earlyoom and systemd-oomd cannot do that. earlyoom ends the process with the worst oom_score of the
machine, by name if told so, and cannot be held to one unit's compilers "or else nothing".
systemd-oomd ends a whole control group, and the engine and its compilers share one; it also needs
the memory controller, which a container or an older WSL2 may not delegate. Neither leaves a reason
that the next run can show.
"""

import argparse
import contextlib
import ctypes
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from hostkit.host import guardlog, memory, paths, units
from hostkit.host.process import Failure

COMPILERS = frozenset(
    ("ninja", "nvcc", "cicc", "ptxas", "cudafe++", "fatbinary", "nvlink", "cc1", "cc1plus", "lto1")
)

_REPEAT_S = 600


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("guard", help="end compilers of a unit when memory runs out")
    parser.add_argument("--unit", default=paths.UNIT)
    parser.add_argument("--floor-mib", type=int, help="default: an eighth of RAM, at most 3 GiB")
    parser.set_defaults(run=_guard_command)


def _guard_command(args: argparse.Namespace) -> int:
    _stay_in_memory()
    reader = memory.Reader()
    watch = memory.Watch(_floor(reader, args.floor_mib))
    print(f"watching {args.unit}: floor {watch.floor_mib} MiB", flush=True)
    silent_until = 0.0
    while True:
        why = watch.feed(reader.sample())
        if why:
            ended = end(lambda: compilers(args.unit))
            if ended:
                text = f"{why}: ended {', '.join(ended)} of {args.unit}; the server goes on"
                guardlog.record(args.unit, text)
                print(text, flush=True)
            elif time.monotonic() >= silent_until:
                print(f"{why}: {args.unit} has no compiler to end", flush=True)
                silent_until = time.monotonic() + _REPEAT_S
        time.sleep(memory.INTERVAL_S)


class Watched:
    """What the guard saw of a job: why it ended it, and how little memory was left at the least."""

    def __init__(self) -> None:
        self.reason = ""
        self.least_available_mib = 0

    def figures(self) -> dict[str, int]:
        """How near it came, and the largest process that has ended so far, both in MiB."""
        largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        return {"least_available": self.least_available_mib, "largest_process": largest}


@contextlib.contextmanager
def watching(name: str, floor_mib: int | None = None) -> Iterator[Watched]:
    """Run the body under the guard: what this process has started is ended when memory runs out.

    Raises Failure with the reason then, which guardlog keeps. Also raises Failure, before
    the body, when memory is low already.
    """
    reader = memory.Reader()
    floor = _floor(reader, floor_mib)
    first = reader.sample()
    if why := memory.low(first, floor):
        reader.close()
        raise Failure(f"{why}: not started; free some first")
    watched, over = Watched(), threading.Event()
    watched.least_available_mib = first.available

    def keep_watch() -> None:
        watch = memory.Watch(floor)
        while not over.wait(memory.INTERVAL_S):
            sample = reader.sample()
            watched.least_available_mib = min(watched.least_available_mib, sample.available)
            if watched.reason or (why := watch.feed(sample)):
                watched.reason = watched.reason or f"stopped by the memory guard: {why}"
                end(lambda: descendants(os.getpid()))

    thread = threading.Thread(target=keep_watch, name="memory guard", daemon=True)
    thread.start()
    try:
        yield watched
    except Exception as error:
        if not watched.reason:
            raise
        guardlog.record(name, watched.reason)
        raise Failure(watched.reason) from error
    finally:
        over.set()
        thread.join()
        reader.close()


def end(find: Callable[[], dict[int, str]]) -> list[str]:
    """SIGKILL the processes that `find` finds, until it finds no new one; returns their names.

    A parent that is ended may have started another child in the meantime.
    """
    ended: dict[int, str] = {}
    while fresh := {pid: name for pid, name in find().items() if pid not in ended}:
        for pid in fresh:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended |= fresh
    return [f"{name} ({pid})" for pid, name in sorted(ended.items())]


def compilers(unit: str) -> dict[int, str]:
    """The compiler processes in a unit's control group: pid to name."""
    return {
        pid: name
        for pid, (name, _) in _processes().items()
        if name in COMPILERS and units.belongs_to_unit(pid, unit)
    }


def descendants(pid: int) -> dict[int, str]:
    """All processes below one: pid to name."""
    processes = _processes()
    found: dict[int, str] = {}
    parents = {pid}
    while parents:
        children = {
            child: name
            for child, (name, parent) in processes.items()
            if parent in parents and child not in found
        }
        found |= children
        parents = set(children)
    return found


def _floor(reader: memory.Reader, floor_mib: int | None) -> int:
    return floor_mib or memory.default_floor(reader.sample().total)


def _processes() -> dict[int, tuple[str, int]]:
    """Every process: pid to its name and its parent."""
    found = {}
    for entry in units.PROC.iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "stat").read_text("utf-8", "replace")
            except OSError:
                continue
            # The name stands in parentheses and may hold some itself.
            head, _, tail = text.rpartition(") ")
            found[int(entry.name)] = (head.partition("(")[2], int(tail.split()[1]))
    return found


def _stay_in_memory() -> None:
    """A guard that is paged out comes too late."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mlockall(3)  # MCL_CURRENT | MCL_FUTURE
