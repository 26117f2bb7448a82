"""Takes over from a vLLM that somebody runs by hand; gives it back when that fails."""

from typing import Any

from hostkit.generation import gate, generations
from hostkit.host import lock, units
from hostkit.host.jobs import progress
from hostkit.host.paths import UNIT
from hostkit.host.process import Failure
from hostkit.lifecycle import foreign, switch
from hostkit.lifecycle import watch as watching
from hostkit.serving import goodstart, warmup


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("foreign", help="each vLLM here that is not ours")
    parser.add_argument("--fail", action="store_true", help="exit status 1 when there is one")
    parser.set_defaults(run=lambda args: _list(args.fail))

    parser = subparsers.add_parser("adopt", help="replace one of them by a generation of ours")
    parser.add_argument("name")
    parser.add_argument("generation", type=int)
    parser.add_argument("--deadline", type=float, required=True, help="seconds until it answers")
    parser.add_argument("--by", default="", help="who asks")
    parser.set_defaults(run=lambda args: adopt(args.name, args.generation, args.deadline, args.by))


def _list(fail: bool) -> int:
    found = foreign.find()
    for each in found:
        print(each)
    return 1 if fail and found else 0


def adopt(name: str, number: int, deadline_s: float, by: str) -> int:
    """Back it up, stop it, start ours in one watched start; back again when ours fails."""
    with lock.held(f"replacing {name}", by) as left:
        if left is not None:
            # It may have died between stopping theirs and starting ours.
            for line in foreign.put_back():
                progress(line)
        gate.check(number)
        found = foreign.named(name)
        progress(f"replacing {found}")
        progress(f"its unit, environment and command are kept in {foreign.back_up(found)}")
        foreign.stop(found)
        try:
            switch.stop()
            generations.switch(number)
            switch.install_unit(number)
            server, seconds = switch.start_watched(number, deadline_s)
            progress(f"generation {number} answers after {seconds:.0f} s")
            warmup.run(server)
        except Exception as error:
            units.systemctl("stop", UNIT)
            watching.allow_restarts()
            for line in foreign.put_back():
                progress(line)
            raise Failure(f"generation {number} failed and {name} runs again: {error}") from error
        generations.mark_verified(number)
        goodstart.record(
            number, goodstart.of(units.journal(watching.attempt().invocation), seconds)
        )
        watching.allow_restarts()
    return 0
