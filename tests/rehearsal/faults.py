"""Faults to plant on a rehearsal host that serves, each with its remedy, and what the doctor says.

All of them fit together on one host: see test_1_doctor.py.
"""

import json
import re
import subprocess
from dataclasses import dataclass

from . import deploys

OTHER = 900
"""The number of a generation that nobody asked for."""

CANARY = "cAnArY-0123456789"
PERSON = "mallory"
ADDRESS = "10.9.8.7"
GENERATIONS = "/opt/vllm/generations"
KEPT = "/var/lib/vllm/health/failures/999"
SITE = "$(echo /opt/vllm/generations/$N/release/venv/lib/python3*/site-packages)"
LIBRARY = f"$(ls {SITE}/yaml/_yaml*.so)"
UNIT = "/etc/systemd/system/vllm.service"


@dataclass(frozen=True)
class Fault:
    """Shell commands that plant it and take it away again, with $N the generation that runs.

    `what` is what the doctor names, `words` are of its row and of the remedy below it.
    """

    name: str
    plant: str
    remove: str
    what: str
    words: tuple[str, ...]
    level: str = "problem"


def kept_copy(file: str, change: str) -> tuple[str, str]:
    """Commands that change a file and put back what it was, times and owner included."""
    return f"cp -p {file} {file}.kept; {change}", f"mv -f {file}.kept {file}"


def edited(file: str, sed: str) -> tuple[str, str]:
    return kept_copy(file, f"sed -i {sed!r} {file}")


def _reloaded(plant: str, remove: str) -> tuple[str, str]:
    return plant, f"{remove}; systemctl daemon-reload"


_REPORT = {
    "at": 1796000000.0,
    "invocation": "0",
    "result": "exit-code",
    "status": "1",
    "class": "gpu-memory",
    "what": "the GPU's memory did not suffice",
    "remedy": "lower gpu_memory_utilization",
    "cause": f"CUDA out of memory, says /home/{PERSON}/x at {ADDRESS}",
    "served": False,
    "lasted_s": 3.0,
    "generation": 1,
    "good_before": "GOOD",
    "versions": {},
    "versions_when_good": {},
    "later": [],
}
_KEEP = f"""mkdir -p {KEPT}; cat >{KEPT}/report.json <<'END'
{json.dumps(_REPORT)}
END
sed -i "s/GOOD/$(sed -n 's/.*"invocation": "\\(.*\\)",/\\1/p' /var/lib/vllm/health/good.json)/" \
  {KEPT}/report.json
sed -i "s/1796000000.0/$(date +%s)/" {KEPT}/report.json
{{ echo "Authorization: Bearer {CANARY}"; cut -d'"' -f2 /etc/vllm/secrets.env; hostname; }} \
  >{KEPT}/journal.log"""
_ORPHAN = (
    "systemd-run --quiet --collect --unit=orphan --uid=vllm "
    f"$(readlink -f {GENERATIONS}/$N/release)/venv/bin/python -c 'import time; time.sleep(600)'"
)
_STARTS = "/run/vllm/starts.json"
_NOW = "$(cut -d. -f1 /proc/uptime)"
_METRICS = "/var/lib/vllm/home/metrics"
_LOCK = {"by": "me@desk", "doing": "restarting generation 3", "since": "noon", "pid": 1}

FAULTS = (
    Fault(
        "a module of the release edited",
        *kept_copy(f"{SITE}/vllm/standin.py", f"echo '# mine' >>{SITE}/vllm/standin.py"),
        "release",
        ("vllm/standin.py was changed on the disk", "sudo rm -r /opt/vllm/releases/", "deploy.py"),
    ),
    Fault(
        "a loaded library exchanged",
        f"F={LIBRARY}; mv $F $F.kept; cp $F.kept $F",
        f"F={LIBRARY}; mv -f $F.kept $F",
        "release",
        (".so.kept runs in the server, and is of no package", "sudo systemctl stop vllm"),
    ),
    Fault(
        "serve.yaml edited",
        *edited(f"{GENERATIONS}/$N/serve.yaml", "s/bfloat16/float32/"),
        "generation",
        ("serve.yaml was edited by hand", "deploy.py, then tasks/restart_vllm.py"),
    ),
    Fault(
        "the unit edited",
        *_reloaded(*edited(UNIT, "$a # mine")),
        "unit",
        ("is not that of generation", "deploy.py puts it back"),
    ),
    Fault(
        "a drop-in",
        f"mkdir {UNIT}.d; echo '[Service]' >{UNIT}.d/mine.conf; systemctl daemon-reload",
        f"rm -r {UNIT}.d; systemctl daemon-reload",
        "unit",
        ("vllm.service.d/mine.conf", "systemctl revert"),
    ),
    Fault(
        "the unit disabled",
        "systemctl disable --quiet vllm",
        "systemctl enable --quiet vllm",
        "unit",
        ("vllm.service is disabled", "deploy.py enables it"),
    ),
    Fault(
        "another current generation",
        f"cp -a {GENERATIONS}/$N {GENERATIONS}/{OTHER}; ln -sfn generations/{OTHER} "
        f"/opt/vllm/current; echo 'MY_TOKEN=\"{CANARY}\"' >>{GENERATIONS}/{OTHER}/vllm.env",
        f"ln -sfn generations/$N /opt/vllm/current; rm -r {GENERATIONS}/{OTHER}",
        "current",
        (f"the next start would be of {OTHER}", "tasks/restart_vllm.py"),
    ),
    Fault(
        "an environment that was meant otherwise",
        *edited(f"{GENERATIONS}/$N/generation.json", 's/"MAX_JOBS": "1"/"MAX_JOBS": "2"/'),
        "environment",
        ("MAX_JOBS is '1'", "wanted: '2'"),
    ),
    Fault(
        "a leftover in shared memory",
        "install -o vllm -m 600 /dev/null /dev/shm/psm_left",
        "rm /dev/shm/psm_left",
        "/dev/shm",
        ("psm_left (0 bytes)", "hostkit sweep"),
    ),
    Fault(
        "an orphan",
        _ORPHAN,
        "systemctl stop orphan",
        "processes",
        ("time.sleep(600)", "sudo kill"),
    ),
    Fault(
        "a failure kept",
        _KEEP,
        f"rm -r {KEPT}",
        "failures",
        ("(gpu-memory): CUDA out of memory", "not served since", "lower gpu_memory_utilization"),
    ),
    Fault(
        "no start left",
        f"cp -p {_STARTS} {_STARTS}.kept; echo [{_NOW}, {_NOW}, {_NOW}] >{_STARTS}",
        f"mv -f {_STARTS}.kept {_STARTS}",
        "starts",
        ("3 of 3", "2 of them by systemd alone", "stays down"),
    ),
    Fault(
        "a tier that only stores",
        f"printf 'vllm:kv_offload_store_bytes_total 8e9\\n"
        f"vllm:external_prefix_cache_queries_total 250000.0\\n"
        f"vllm:external_prefix_cache_hits_total 0.0\\n' >{_METRICS}",
        f"rm {_METRICS}",
        "KV tiers",
        ("8.0 GB stored, 0.0 GB loaded", "kv_ram_gib = 0"),
    ),
    Fault(
        "a shard truncated",
        *kept_copy("$M/model.safetensors", "truncate -s -1 $M/model.safetensors"),
        "model",
        ("model.safetensors has", "its header says", "deploy.py brings it anew"),
    ),
    Fault(
        "a key that others can read",
        "chmod 644 /etc/vllm/secrets.env",
        "chmod 600 /etc/vllm/secrets.env",
        "secrets",
        ("/etc/vllm/secrets.env is root's, mode 644", "chmod 600"),
    ),
    Fault(
        "a timer stopped",
        "systemctl stop vllm-watch.timer",
        "systemctl start vllm-watch.timer",
        "vllm-watch.timer",
        ("is inactive", "deploy.py --dry --diff"),
    ),
    Fault(
        "a service of ours edited",
        *_reloaded(*edited("/etc/systemd/system/vllm-guard.service", "$a # mine")),
        "vllm-guard.service",
        ("was edited by hand", "deploy.py --dry --diff"),
    ),
    Fault(
        "hostkit edited",
        *edited("/opt/vllm/hostkit/hostkit/metrics/figures.py", "$a # mine"),
        "hostkit",
        ("is installed", "this repository's"),
    ),
    Fault(
        "a run that was killed",
        f"echo {json.dumps(json.dumps(_LOCK))} >/run/vllm/switch.lock",
        "truncate -s 0 /run/vllm/switch.lock",
        "a run",
        ("me@desk is restarting generation 3", "vllm-settle"),
    ),
    Fault(
        "another kernel at the last good start",
        *edited("/var/lib/vllm/health/good.json", 's/"kernel": "/"kernel": "5.15-/'),
        "kernel",
        ("5.15-", "at the last good start"),
        level="warning",
    ),
)


def plant(host: str, *faults: Fault) -> None:
    _run(host, [fault.plant for fault in faults])


def remove(host: str, *faults: Fault) -> None:
    _run(host, [fault.remove for fault in reversed(faults)])


def _run(host: str, commands: list[str]) -> None:
    # What runs is named by no fault's own file, so that one can be taken away after another.
    known = (
        "number() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])'"
        ' "$@"; }\nN=$(number /run/vllm/server/start.json generation)\n'
        f"M=$(number {GENERATIONS}/$N/generation.json model_dir)"
    )
    script = "\n".join(["set -e", known, *commands])
    deploys.on_host("sh -s", host=host, stdin=f"{script}\n")


def doctor(host: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A run of the doctor, without a terminal."""
    done = deploys.pyinfra("tasks/doctor.py", *arguments, host=host)
    assert "Traceback" not in done.stderr
    return done


def rows(output: str) -> list[tuple[str, str, str]]:
    """Level, what, and the rest with the remedy, of each row that is not ok."""
    found: list[tuple[str, str, str]] = []
    for line in output.splitlines():
        row = re.match(r"\s*\[\w+\]   (ok|warning|problem) +(.*?)  +(.*)", line)
        remedy = re.match(r"\s*\[\w+\] {12,}(\S.*)", line)
        if row:
            found.append((row[1], row[2], row[3]))
        elif remedy and found:
            level, what, rest = found.pop()
            found.append((level, what, f"{rest} {remedy[1]}"))
    return [each for each in found if each[0] != "ok"]


def is_named(fault: Fault, found: list[tuple[str, str, str]]) -> bool:
    """Is it among these rows, with all that is to be said of it?"""
    return any(
        level == fault.level
        and what.split(" ")[0] == fault.what.split(" ")[0]
        and all(word in rest for word in fault.words)
        for level, what, rest in found
    )


def assert_healthy(host: str) -> None:
    """The doctor says nothing of this host."""
    done = doctor(host)
    assert rows(done.stderr) == []
    assert done.returncode == 0
