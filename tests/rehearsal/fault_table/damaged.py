"""Files on the host that are cut to nothing, full of junk, gone, or no files at all."""

from .fault import Fault

_GOOD = "/var/lib/vllm/health/good.json"
_SLOWEST = "/var/lib/vllm/health/slowest_failing_start.json"
_SECRETS = "/etc/vllm/secrets.env"
_RUN = "/run/vllm"

_STATE = (_GOOD, _SLOWEST, f"{_RUN}/starts.json", f"{_RUN}/handover.json")


def _secrets(name: str, plant: str) -> Fault:
    return Fault("secrets", f"the API key's file {name}", _SECRETS, plant)


DAMAGED = (
    Fault(
        "state files",
        "hostkit's own notes are cut to nothing",
        "/var/lib/vllm/health, /run/vllm",
        f"for file in {' '.join(_STATE)}; do : >$file; done",
    ),
    Fault(
        "state files",
        "hostkit's own notes are junk",
        "/var/lib/vllm/health, /run/vllm",
        f"for file in {' '.join(_STATE)}; do junk $file; done",
        task="tasks/restart_vllm.py",
        untouched=False,
    ),
    Fault(
        "state files",
        "hostkit's counters are JSON of another kind",
        f"{_RUN}/starts.json, {_SLOWEST}",
        f"echo '{{\"a\": [null]}}' >{_RUN}/starts.json; "
        f"echo Infinity >{_SLOWEST}; echo [] >{_GOOD}",
        task="tasks/restart_vllm.py",
        untouched=False,
    ),
    Fault(
        "state files",
        "the reports of failures are junk",
        "/var/lib/vllm/health/failures",
        "cd /var/lib/vllm/health; mkdir -p failures/1 failures/2 failures/mine; "
        "junk failures/1/report.json; echo '{}' >failures/2/report.json; touch failures/9",
        "rm -r /var/lib/vllm/health/failures",
    ),
    Fault(
        "state files",
        "everything below /run/vllm is gone while the server runs",
        _RUN,
        f"rm -r {_RUN}/*",
        daily=True,
    ),
    Fault(
        "state files",
        "the note of what runs is junk",
        f"{_RUN}/server/start.json",
        f"mkdir -p {_RUN}/server; junk {_RUN}/server/start.json",
    ),
    Fault(
        "state files",
        "the lock is junk that nobody holds",
        f"{_RUN}/switch.lock",
        f"junk {_RUN}/switch.lock",
        task="tasks/restart_vllm.py",
        untouched=False,
    ),
    Fault(
        "state files",
        "the lock is a folder",
        f"{_RUN}/switch.lock",
        f"rm {_RUN}/switch.lock; mkdir {_RUN}/switch.lock",
        f"rmdir {_RUN}/switch.lock",
        said=("switch.lock",),
        task="tasks/restart_vllm.py",
    ),
    _secrets("is gone", f"rm {_SECRETS}"),
    _secrets("is empty", f": >{_SECRETS}"),
    _secrets("is junk", f"junk {_SECRETS}"),
    _secrets(
        "is readable for everybody, and another's", f"chmod 666 {_SECRETS}; chown vllm {_SECRETS}"
    ),
    _secrets(
        "is a link to elsewhere", f"mv {_SECRETS} /srv/secrets; ln -s /srv/secrets {_SECRETS}"
    ),
    Fault(
        "secrets",
        "the API key's file is a folder",
        _SECRETS,
        f"mv {_SECRETS} /srv/secrets; mkdir {_SECRETS}",
        f"rmdir {_SECRETS}",
        said=("secrets.env", "irectory"),
    ),
    Fault(
        "settings on the host",
        "the folder /etc/vllm is gone",
        "/etc/vllm",
        "rm -rf /srv/etc-vllm; mv /etc/vllm /srv/etc-vllm",
        "mkdir -p /etc/vllm; mv /srv/etc-vllm/mine /etc/vllm/",
    ),
)
