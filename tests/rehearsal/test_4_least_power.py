"""What the service may do on its host: tried from within its own sandbox."""

import json
import re
from pathlib import Path

import pytest

from tasks.shared import templates
from tasks.shared.settings import Settings
from tests.unit.conftest import values_of

from . import deploys

PROBE = "powers.service"
OPEN = "/srv/open-to-all"
HOME = "/home/somebody"
WRITABLE = ("/var/lib/vllm/home", "/opt/vllm/current/release/cache", "/tmp", "/dev/shm")
KV = "/var/lib/vllm/kv"
FORBIDDEN = (
    *("/etc", "/etc/vllm", "/usr", "/root", "/boot", "/opt/vllm", "/opt/vllm/hostkit", OPEN, HOME),
    *("/opt/vllm/generations", "/opt/vllm/current/release/venv", "/var/lib/vllm/models"),
    *("/var/lib/vllm/health", "/run/vllm", "/run/systemd/system", "/var/log"),
)
SECRET = ("/etc/vllm/secrets.env", "/etc/shadow", "/root/.ssh/authorized_keys")


def run(command, host, stdin=""):
    return deploys.on_host(command, host=host, stdin=stdin)


def installed(host):
    return run("cat /etc/systemd/system/vllm.service", host)


def production(_host):
    """The unit of the production profile, with WSL2's devices and an SSD tier."""
    return templates.unit(Settings.model_validate(values_of("group_data/all.py")))


def same_sandbox(unit):
    """The unit that runs the probe once, in place of the server, and is told what it is told."""
    own = re.compile(r"Exec|Restart(?!rict)|Type=|RuntimeDirectory=|StartLimit|\[Install|Wanted")
    kept = [line for line in unit.splitlines() if line and not own.match(line)]
    return "\n".join(
        [
            *kept,
            "Type=oneshot",
            "ExecStart=/usr/bin/python3 -IB /srv/powers.py /srv/powers.json",
            "StandardOutput=truncate:/srv/powers.out",
        ]
    )


@pytest.fixture(scope="module")
def host(standin_host):
    """It has folders that anybody may write to, were it not for the sandbox, and a KV folder."""
    run(f"mkdir -p {OPEN} {HOME} {KV}; chmod 777 {OPEN} {HOME}; chown vllm: {KV}", standin_host)
    script = (Path(__file__).parent / "scripts/powers.py").read_text()
    run("cat >/srv/powers.py", standin_host, script)
    told = {"write": [*WRITABLE, KV, *FORBIDDEN], "read": SECRET}
    run("cat >/srv/powers.json", standin_host, json.dumps(told))
    yield standin_host
    run(
        f"rm -rf {OPEN} {HOME} /srv/powers.* /run/systemd/system/{PROBE}; rmdir {KV}; "
        "systemctl daemon-reload",
        standin_host,
    )


@pytest.fixture(scope="module", params=[installed, production], ids=["installed", "production"])
def powers(request, host):
    """What the probe could do within that unit's sandbox."""
    run(f"cat >/run/systemd/system/{PROBE}", host, same_sandbox(request.param(host)))
    run(f"systemctl daemon-reload && systemctl start {PROBE}", host)
    return request.param, json.loads(run("cat /srv/powers.out", host))


def test_the_service_writes_to_its_own_folders_and_to_no_others(powers):
    unit, found = powers
    writable = {*WRITABLE, *([KV] if unit is production else [])}
    wrote = {path for path in (*WRITABLE, KV, *FORBIDDEN) if not found[f"write {path}"]}
    assert wrote == writable


def test_the_same_attempts_work_without_the_sandbox(host):
    """Else they would show nothing: root may do all of it, and anybody what is open to all."""
    free = json.loads(run("python3 -IB /srv/powers.py /srv/powers.json", host))
    allowed = {name for name, why in free.items() if why == ""}
    assert allowed >= {f"write {path}" for path in FORBIDDEN} | {f"read {path}" for path in SECRET}
    assert allowed >= {"a raw socket", "a port below 1024", "a set-uid file", "become root"}
    as_vllm = "setpriv --reuid=vllm --regid=vllm --clear-groups env HOME=/tmp"
    other = json.loads(run(f"{as_vllm} python3 -IB /srv/powers.py /srv/powers.json", host))
    assert other[f"write {OPEN}"] == other[f"write {HOME}"] == other["a set-uid file"] == ""


def test_the_service_reads_no_file_with_a_secret(powers):
    _, found = powers
    assert {found[f"read {path}"] for path in SECRET} == {"EACCES"}


@pytest.mark.parametrize(
    "power",
    ["become root", "sudo", "a raw socket", "a port below 1024", "a namespace", "a set-uid file"],
)
def test_the_service_has_no_power_beyond_its_user(powers, power):
    _, found = powers
    assert found[power] != ""


def test_every_process_of_the_server_runs_without_capabilities_and_can_gain_none(host):
    pids = run(
        "cat /sys/fs/cgroup/systemd/system.slice/vllm.service/cgroup.procs 2>/dev/null || "
        "cat /sys/fs/cgroup/system.slice/vllm.service/cgroup.procs",
        host,
    ).split()
    assert pids
    for pid in pids:
        fields = dict(
            line.split(":\t", 1) for line in run(f"cat /proc/{pid}/status", host).splitlines()
        )
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(fields[name], 16) == 0, name
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
        assert {*fields["Uid"].split()} == {run("id -u vllm", host)}


def test_nobody_can_log_in_as_the_services_user(host):
    name, _, _, _, _, home, shell = run("getent passwd vllm", host).split(":")
    assert (name, home, shell) == ("vllm", "/var/lib/vllm/home", "/usr/sbin/nologin")
    assert run("getent shadow vllm", host).split(":")[1].startswith(("!", "*"))
    assert run("id -Gn vllm", host) == "vllm"
    assert run("grep -rw vllm /etc/sudoers /etc/sudoers.d 2>/dev/null; true", host) == ""
