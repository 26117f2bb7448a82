"""How long the same work takes ansible-core:
`python -m tests.rehearsal.measure.ansible [ROUNDS [HOSTS...]]`.

A plan of hosts that have nothing yet, and a deploy without a change, for one host and for five
unless told otherwise, over SSH, both programs in turns. Ansible gets what deploy.py manages as
tasks of its own modules (ansible/playbook.yml), the settings that make it fast
(ansible/ansible.cfg), and the contents that a deploy has left on a host. It is installed for this
alone, pinned by hash, in the cache.

Makes that many rehearsal hosts with the stand-in for vLLM and one more, and removes them.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from .. import deploys, standin
from ..host import machine, state
from ..host.control import cache
from ..host.errors import RehearsalError
from .deploy import measured_environment

FIRST = "ansible-0"
FOLDER = Path(__file__).parent
REQUIREMENTS = state.REPOSITORY / "requirements/ansible.txt"
LOOK = state.REPOSITORY / "tasks/shared/facts/machine.sh"

# What the playbook copies, as a deploy has left it on the host.
_FILES = """
set -e
cd "$(mktemp -d)"
pack() { tar -C "$1" -czf "$2.tar.gz" .; }
units=$(systemctl list-unit-files --no-legend 'vllm-*' | cut -d ' ' -f 1)
for unit in $units; do cp "/etc/systemd/system/$unit" .; done
cp /etc/vllm/secrets.env .
cp /var/lib/vllm/models/*/.source model-source
pack /opt/vllm/hostkit/ hostkit
pack /opt/vllm/inputs/*/ inputs
pack /opt/vllm/current/ generation
pack /etc/vllm/prometheus prometheus
tar -cf - .
rm -rf "$PWD"
"""


class Run(Protocol):
    """A program that works on hosts."""

    def __call__(self, names: Sequence[str], *options: str) -> subprocess.CompletedProcess[str]: ...


@dataclass(frozen=True)
class Measured:
    """A program, its options, and what it prints of a change where none may be; "" for a plan."""

    run: Run
    options: Sequence[str]
    changes: str = ""


def playbook_program() -> Path:
    """ansible-playbook, installed where the requirements have changed or it is not there yet."""
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    folder = cache() / "ansible" / wanted
    program = folder / "bin/ansible-playbook"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        options = ["--quiet", "--require-hashes", "--only-binary", ":all:"]
        python = str(folder / "bin/python")
        pip = [python, "-m", "pip", "install", *options, "-r", str(REQUIREMENTS)]
        subprocess.run(pip, check=True)
        (folder / "ready").touch()
    return program


class Ansible:
    """Ansible's view of rehearsal hosts: an inventory, and a folder of contents for each."""

    def __init__(self, folder: Path, deployed: str) -> None:
        self._folder = folder
        self._deployed = deployed
        self._program = playbook_program()

    def know(self, names: Sequence[str]) -> None:
        """Write what the playbook is told of these hosts; one not deployed yet is as the first."""
        hosts = {name: self._variables(name) for name in names}
        (self._folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        # Connects, and asks for the facts that are kept from then on.
        self.run(names, "--tags", "none")

    def _variables(self, name: str) -> dict[str, Any]:
        host = state.load(name)
        is_deployed = (host.root / "opt/vllm/current").is_symlink()
        like = name if is_deployed else self._deployed
        source = self._folder / like
        if not source.is_dir():
            _fetch(like, source)
        current = deploys.hostkit_state(like)["current"]
        generation = json.loads(deploys.on_host("cat /opt/vllm/current/generation.json", host=like))
        return {
            "ansible_host": host.ssh_hostname,
            "ansible_port": host.ssh_port,
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(host.key),
            "ansible_ssh_common_args": f"-F/dev/null -oUserKnownHostsFile={host.known_hosts}",
            "source": str(source),
            "ports": f"{host.api_port} {host.metrics_port} {host.exporter_port}",
            "program": deploys.on_host("readlink /opt/vllm/hostkit", host=like),
            "release": generation["release"],
            "model": generation["model_dir"],
            "generation": current,
            "digest": generation["digest"],
        }

    def run(self, names: Sequence[str], *options: str) -> subprocess.CompletedProcess[str]:
        """One run of the playbook against these hosts."""
        environment = {
            "ANSIBLE_CONFIG": str(FOLDER / "ansible.cfg"),
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(self._folder / "facts"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self._folder / "connections"),
            "ANSIBLE_NOCOLOR": "1",
        }
        hosts = ["-i", str(self._folder / "hosts.yml"), "--limit", ",".join(names)]
        return subprocess.run(
            [str(self._program), *hosts, *options, str(FOLDER / "playbook.yml")],
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def _fetch(name: str, folder: Path) -> None:
    folder.mkdir()
    sent = subprocess.run(
        state.load(name).ssh_command("sh"), input=_FILES.encode(), capture_output=True, check=True
    )
    subprocess.run(["tar", "-C", folder, "-xf", "-"], input=sent.stdout, check=True)
    (folder / "machine.sh").write_bytes(LOOK.read_bytes())


def module_runs() -> int:
    """How many resources and questions the playbook has: what a loop names counts each."""
    (play,) = yaml.safe_load((FOLDER / "playbook.yml").read_text("utf-8"))
    asked = [task for task in play["tasks"] if "assert" not in task]
    return sum(len(task.get("loop", [None])) for task in asked)


def run_pyinfra(names: Sequence[str], *options: str) -> subprocess.CompletedProcess[str]:
    """One run of deploy.py against these hosts."""
    return subprocess.run(
        [*deploys.PYINFRA, "deploy.py", *options],
        cwd=deploys.checkout(names[0]),
        env=measured_environment(",".join(names)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def seconds(run: Run, names: Sequence[str], options: Sequence[str], changes: str) -> float:
    """How long a run takes that must not fail, nor print the word for a change where it may not."""
    begin = time.monotonic()
    done = run(names, *options)
    took = time.monotonic() - begin
    said = done.stdout + done.stderr
    if done.returncode or (changes and changes in said):
        raise RehearsalError(f"{done.args[0]} failed or changed something:\n{said[-3000:]}")
    return took


def compare(what: str, names: Sequence[str], ours: Measured, theirs: Measured, rounds: int) -> str:
    """A line with the medians of both in seconds, and how many times as long theirs takes."""

    def once() -> tuple[float, float]:
        return seconds(ours.run, names, ours.options, ours.changes), seconds(
            theirs.run, names, theirs.options, theirs.changes
        )

    pairs = [once() for _ in range(rounds)]
    one, other = (statistics.median(each) for each in zip(*pairs, strict=True))
    ratios = ", ".join(f"{b / a:.1f}" for a, b in pairs)
    return f"  {what:34} {one:6.2f}   {other:7.2f}   {other / one:5.1f}   ({ratios})"


def measure(ansible: Ansible, rounds: int, groups: Sequence[Sequence[str]]) -> None:
    """Measure, for each of these groups of hosts, and print each line as it is known."""
    print(f"{rounds} runs in turns, medians in seconds; {module_runs()} runs of Ansible's modules:")
    print(f"  {'':34} {'pyinfra':>6}   {'Ansible':>7}   {'ratio':>5}   (of each turn)")
    planned = (
        Measured(run_pyinfra, ("--dry", "--diff")),
        Measured(ansible.run, ("--check", "--diff")),
    )
    deployed = Measured(run_pyinfra, ("-y",), "] Success"), Measured(ansible.run, (), "changed: [")
    for names in groups:
        ansible.know(names)
        print(compare(f"plan, fresh hosts: {len(names)}", names, *planned, rounds), flush=True)
    deploy(max(groups, key=len))
    for names in groups:
        ansible.know(names)
        print(compare(f"no change, hosts: {len(names)}", names, *deployed, rounds), flush=True)


def deploy(names: Sequence[str]) -> None:
    """Deploy to these hosts for the first time."""
    if (done := run_pyinfra(names, "-y")).returncode:
        raise RehearsalError(done.stderr[-3000:])


def main(rounds: str = "3", *counts: str) -> None:
    sizes = [int(count) for count in counts] or [1, 5]
    groups = [[f"ansible-{number}" for number in range(1, size + 1)] for size in sizes]
    hosts = [FIRST, *max(groups, key=len)]
    try:
        for name in hosts:
            machine.up(name)
            standin.furnish(name, metrics=True)
        deploy([FIRST])
        with tempfile.TemporaryDirectory(prefix="ansible-") as folder:
            measure(Ansible(Path(folder), FIRST), int(rounds), groups)
    finally:
        for name in hosts:
            machine.down(name)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except RehearsalError as error:
        sys.exit(f"error: {error}")
