"""What a start's log must show before the server counts as started: pure functions.

vLLM takes some flags without acting on them and falls back from others in silence; the lines that
only a flag in force writes tell the difference. A generation's note lists them under `proofs`, each
with the keys `line` (a regular expression), `shows` (what it proves, for the operator), `processes`
(how many of vLLM's processes must write it, by default one) and `below` (when given, the first
group of each process's last such line is a number, and must be less).
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

_PROCESS = re.compile(r"^\((?P<name>[\w ]+pid=\d+)\)")


def missing(expected: Iterable[Mapping[str, Any]], lines: Iterable[str]) -> list[str]:
    """A text for each expectation that the log lines do not meet; empty when all is shown."""
    log = list(lines)
    return [text for each in expected if (text := _missing(each, log))]


def _missing(expected: Mapping[str, Any], lines: list[str]) -> str:
    wanted = int(expected.get("processes", 1))
    below = float(expected.get("below", math.inf))
    last = {_writer(line): match for line in lines if (match := re.search(expected["line"], line))}
    writers = [each for each in last.values() if below == math.inf or float(each[1]) < below]
    if len(writers) >= wanted:
        return ""
    limit = f" with a number below {below:g}" if below < math.inf else ""
    seen = f" in {wanted} processes, {len(writers)} did" if wanted > 1 else ""
    return f"nothing shows that {expected['shows']}: no line like {expected['line']!r}{limit}{seen}"


def _writer(line: str) -> str:
    match = _PROCESS.match(line)
    return match["name"] if match else ""
