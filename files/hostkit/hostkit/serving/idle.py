"""Is anybody using the server? What cannot be told counts as use."""

import time
from collections import Counter
from collections.abc import Callable

from hostkit.host import connections, units
from hostkit.host.process import Failure
from hostkit.serving import server

SAMPLES = 2
SAMPLE_S = 1.0
LOOK_AGAIN_S = 0.3
TOLD_EVERY_S = 10.0
ADVICE = "wait, or say --data force=yes"


def busy() -> str | None:
    """What the server is being used for, in words; None when it is idle or serves nothing."""
    try:
        if units.ask("ActiveState")["ActiveState"] != "active":
            return None
        found = server.find()
        count = server.requests_in_flight(found)
    except Failure as error:
        return f"cannot tell whether it is idle ({error})"
    using = describe(_staying(found.port))
    if count:
        return f"{count} requests run or wait" + (f"; connected: {using}" if using else "")
    return f"no request runs, but clients are connected: {using}" if using else None


def _staying(port: int) -> list[connections.Client]:
    """The clients that are there in two looks: one that is just going is no user."""
    first = connections.users(port)
    if not first:
        return []
    time.sleep(LOOK_AGAIN_S)
    again = {(client.address, client.port) for client in connections.users(port)}
    return [client for client in first if (client.address, client.port) in again]


def describe(clients: list[connections.Client]) -> str:
    """The clients in words, those with most connections first."""
    counted = Counter(str(client) for client in clients)
    named = [f"{who} ({n} connections)" if n > 1 else who for who, n in counted.most_common(4)]
    more = len(counted) - len(named)
    return ", ".join([*named, f"{more} more"] if more > 0 else named)


def require(
    wait_s: float,
    say: Callable[[str], None] = print,
    refused: str = "not restarted",
    advice: str = ADVICE,
) -> None:
    """Return once the server is idle in two samples in a row; Failure when it is not in time.

    `say` is told every few seconds what it is waited for and how long that may go on; the Failure
    begins with what was `refused` and ends with the `advice`.
    """
    ends, told, idle = time.monotonic() + wait_s, float("-inf"), 0
    while True:
        why = busy()
        idle = 0 if why else idle + 1
        if idle == SAMPLES:
            return
        left = ends - time.monotonic()
        if why and left <= 0:
            waited = f" after {wait_s:.0f} s" if wait_s else ""
            raise Failure(f"{refused}: {why}{waited}; {advice}")
        if why and time.monotonic() - told >= TOLD_EVERY_S:
            told = time.monotonic()
            say(f"waiting until it is idle, for {left:.0f} s more: {why}")
        time.sleep(SAMPLE_S)
