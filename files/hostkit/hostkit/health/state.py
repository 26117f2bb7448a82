"""The host in one look: unit, generations, whether the server answers. Changes nothing."""

import json
from typing import Any

from hostkit.generation import generations, start
from hostkit.health import failures
from hostkit.host import guardlog, lock, paths, units
from hostkit.serving import server


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("state", help="the host in one line of JSON")
    parser.set_defaults(run=lambda _args: _print_state())


def _print_state() -> int:
    print(json.dumps(state()))
    return 0


def state() -> dict[str, Any]:
    """What the control machine decides upon. Keys are read by tasks/shared/facts/hostkit.py.

    Failure when systemd does not answer: a server that runs would look like none.
    """
    shown = units.ask("ActiveState", "SubState", "MainPID", "InvocationID", "NeedDaemonReload")
    pid = int(shown["MainPID"] or 0)
    current = generations.linked(paths.CURRENT)
    return {
        "active": shown["ActiveState"],
        "sub": shown["SubState"],
        "invocation": shown["InvocationID"],
        "running": start.running_generation(pid) if pid else None,
        "answering": _is_answering(),
        "current": current,
        "previous": generations.linked(paths.PREVIOUS),
        "unit_in_force": _is_in_force(current) and shown["NeedDaemonReload"] != "yes",
        "lock": str(lock.holder() or "") or None,
        "highest": generations.highest(),
        "failure": failures.to_show(),
        "guard": guardlog.to_show(paths.UNIT),
        "generations": {number: _generation(number) for number in generations.numbers()},
    }


def _generation(number: int) -> dict[str, Any]:
    noted = generations.note(number)
    return {
        "digest": noted["digest"],
        "verified": generations.is_verified(number),
        "ssd_tier": generations.has_ssd_tier(number),
        "reached_at": generations.reached_at(noted),
    }


def _is_in_force(current: int | None) -> bool:
    """Is the installed unit the current generation's? One that has lost its own has no say."""
    wanted = generations.unit(current) if current is not None else None
    if wanted is None:
        return True
    try:
        return paths.UNIT_FILE.read_text(errors="replace") == wanted
    except OSError:
        return False


def _is_answering() -> bool:
    try:
        return server.is_healthy(server.find())
    except server.NotAnswering:
        return False
