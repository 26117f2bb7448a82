"""Reads a server's log: how far a start has come, and what ended it. Pure functions."""

import re

_PHASES = (
    # The text in vLLM's log, and what the operator is told; in the order of a start.
    ("hostkit: generation", "importing vLLM"),
    ("vLLM API server version", "reading the configuration"),
    ("Initializing a V1 LLM engine", "starting the engine"),
    ("Starting to load model", "loading weights"),
    ("Loading weights took", "weights loaded"),
    ("Model loading took", "profiling"),
    ("torch.compile took", "compiled"),
    ("KV cache size", "KV pool allocated"),
    ("Graph capturing finished", "graphs captured"),
    ("init engine", "engine ready"),
    ("Starting vLLM server on", "opening the port"),
    ("Application startup complete", "serving"),
)

_PREFIX = re.compile(
    r"^(\((?P<process>[\w ]+pid=\d+)\) ?)?"
    r"((?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?"
)
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b(:|$)")
# These only say that another process failed, and where to look.
_CONSEQUENCES = ("Engine core initialization failed", "WorkerProc initialization failed")
_MAX_LENGTH = 500


def phase(lines: list[str]) -> str:
    """How far a start has come."""
    furthest = -1
    for line in lines:
        for index in range(furthest + 1, len(_PHASES)):
            if _PHASES[index][0] in line:
                furthest = index
    return _PHASES[furthest][1] if furthest >= 0 else "starting"


def last_error(lines: list[str]) -> str:
    """The line that says why a start failed; the last line of all when none looks like an error."""
    plain = [_PREFIX.sub("", line).strip() for line in lines]
    refusals = [line for line in plain if line.startswith("hostkit: refused:")]
    exceptions = [line for line in plain if _EXCEPTION.match(line)]
    causes = [line for line in exceptions if not any(text in line for text in _CONSEQUENCES)]
    usage = [line for line in plain if re.match(r"^[\w. ]+: error: ", line)]
    candidates = refusals or usage or causes or exceptions or [line for line in plain if line]
    return candidates[-1][:_MAX_LENGTH] if candidates else "it wrote nothing"
