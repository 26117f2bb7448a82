"""The server is killed in each phase of a start, cannot get what it needs, or does not answer."""

import json

from .fault import Fault

_DROP_IN = "/run/systemd/system/vllm.service.d/fault.conf"


def _killed(when: str, line: str, token_s: float = 0) -> Fault:
    """Killed as soon as its log has a line; each token of an answer takes so many seconds."""
    env = {"STANDIN_START_S": "1", "STANDIN_TOKEN_S": str(token_s)}
    return Fault(
        "engine",
        f"the server is killed {when}",
        "vllm.service",
        f"kill_at '{line}'",
        "systemctl stop killer 2>/dev/null || true",
        said=("the server did not start and was stopped",),
        task="tasks/restart_vllm.py",
        data=("--data", f"extra_env={json.dumps(env)}"),
        untouched=False,
    )


_PORT_THIEF = """
import socket, sys, time
while True:
    try:
        taken = socket.create_server(("127.0.0.1", int(sys.argv[1])))
        break
    except OSError:
        time.sleep(0.002)
time.sleep(600)
"""

ENGINE = (
    _killed("before it imports anything", "hostkit: generation"),
    _killed("while it loads the model", "Starting to load model"),
    _killed("as it opens its port", "Starting vLLM server"),
    _killed("as it becomes ready", "Application startup complete"),
    _killed("as it is warmed up", "POST /v1/completions", 0.5),
    Fault(
        "no text",
        "the log of the server is no text",
        "the journal",
        f"mkdir -p $(dirname {_DROP_IN}); printf '[Service]\\nExecStartPre=/usr/bin/printf "
        f'"\\\\\\\\377\\\\\\\\376\\\\\\\\n"\\n\' >{_DROP_IN}; systemctl daemon-reload',
        f"rm -f {_DROP_IN}; systemctl daemon-reload",
        task="tasks/restart_vllm.py",
        untouched=False,
    ),
    Fault(
        "engine",
        "the server is stopped in its tracks (SIGSTOP)",
        "vllm.service",
        "systemctl kill -s STOP vllm",
        "systemctl kill -s CONT vllm",
        said=("is open, and /health does not answer",),
        answers=False,
    ),
    Fault(
        "engine",
        "another program takes the port while the server is restarted",
        "the port",
        f"cat >/srv/thief.py <<'END'{_PORT_THIEF}END\n"
        "systemd-run --quiet --collect --unit=thief python3 /srv/thief.py $PORT; sleep 0.5",
        "systemctl stop thief",
        said=("its port is taken", "is held by a process of user id 0"),
        task="tasks/restart_vllm.py",
        untouched=False,
    ),
)
