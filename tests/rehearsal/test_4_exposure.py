"""What others could read and reach: searched and tried, not believed.

Secrets are where they have to be, for root alone, and nowhere else: canaries.py is the search. From
another machine only the front door answers, and only with what the key protects.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from . import deploys, secrets_everywhere, switching
from .canaries import (
    BAITED,
    PLACES,
    Canary,
    Found,
    search_control,
    search_host,
    search_texts,
    spied,
)
from .host import state
from .imitations import outside
from .test_3_dry_runs import NEEDS, REASONS
from .test_5_load_test import SHORT

NOISY = ["--diff", "-vvv", "--debug", "--debug-facts", "--debug-operations"]
OLDER = ("--data", "vllm_version=0.30.0", "--data", "prefill_order=upstream")
FORWARD_AND_BACK = ("tasks/upgrade_vllm.py", "tasks/rollback_vllm.py")
UNINSTALL = "tasks/uninstall.py"
SBOM = "tasks/sbom.py"
NO_RUN = {*FORWARD_AND_BACK, UNINSTALL, SBOM, "tasks/adopt.py", "tasks/rotate_api_key.py"}
"""Run elsewhere, or with nothing to do here, or done by a plan; all of them are planned."""


@dataclass(frozen=True)
class Searched:
    """A host that serves with everything that listens, and what was found on it."""

    name: str
    told: list[Canary]
    host: Found
    spy: Found
    texts: Found
    control: Found
    listening: dict[tuple[str, int], str]
    """Address and port to the program that listens there, of all that runs on the host."""

    outside: outside.Outside
    door: int


def ran(task, *options, host, status=0):
    """What a run says; it ends with this status, or with None with any but a traceback."""
    done = deploys.pyinfra(task, *options, host=host)
    said = done.stdout + done.stderr
    assert status in (None, done.returncode), said[-3000:]
    assert "Traceback" not in said
    return said


def metrics_ports(host):
    ours = state.load(host)
    return [ours.api_port, ours.metrics_port, ours.exporter_port]


def listening(host):
    look = (Path(__file__).parent / "scripts/listeners.py").read_text()
    said = deploys.on_host("python3 -IB - /", host=host, stdin=look)
    rows = [line.split() for line in said.splitlines()[1:]]
    return {(address, int(port)): program for program, address, port in rows}


def shown(host: str, archive: Path) -> Iterator[tuple[str, str | bytes]]:
    """What a plan, a deploy, a rotation, a failure and an archive show."""
    deploys.on_host("echo >>/etc/vllm/secrets.env", host=host)
    yield "plan", ran("deploy.py", "--dry", *NOISY, host=host)
    yield "deploy", ran("deploy.py", "-y", *NOISY[:3], host=host)
    yield "rotation", ran("tasks/rotate_api_key.py", "-y", "--json", *NOISY[:3], host=host)
    current = deploys.hostkit_state(host)["current"]
    number = switching.variant(host, current, STANDIN_FAULT="exit")
    yield "failure", switching.switch(host, number, "--force")[1]
    yield "doctor", ran("tasks/doctor.py", "--data", f"bundle={archive}", host=host, status=1)
    yield "bundle", archive.read_bytes()
    assert switching.switch(host, current)[0] == 0


def shown_by_all_tasks(host: str, folder: Path) -> Iterator[tuple[str, str | bytes]]:
    """What each task shows, planned and run."""
    bill = folder / "bill.cdx.json"
    needs = {**NEEDS, "tasks/load_test.py": SHORT, SBOM: ("--data", f"sbom={bill}")}
    for file in sorted(Path("tasks").glob("*.py")):
        task = str(file)
        options = needs.get(task, ())
        told = {"host": host, "status": None if task in REASONS else 0}
        yield f"plan of {task}", ran(task, "--dry", *NOISY[:3], *options, **told)
        if task not in NO_RUN:
            yield task, ran(task, "-y", "--json", *NOISY[:3], *options, **told)
    for task in FORWARD_AND_BACK:
        yield task, ran(task, "-y", *NOISY[:3], *OLDER, host=host)
    yield "bill of materials", bill.read_bytes()


@contextlib.contextmanager
def put_back(host: str, metrics: bool) -> Iterator[None]:
    """The host serves afterwards as it did before, whatever happens."""
    try:
        yield
    finally:
        assert deploys.deploy_json(host=host).error == 0
        deploys.on_host("python3 -IB /opt/vllm/hostkit failures --seen", host=host)
        if metrics:
            purge = "apt-get -qq purge prometheus >/dev/null; systemctl unmask prometheus"
            deploys.on_host(purge, host=host)


@pytest.fixture(scope="module", params=["deploy", pytest.param("all", marks=pytest.mark.campaign)])
def searched(request, standin_host, tmp_path_factory):
    """All of it is shown, written, rotated and made to fail; then everything is looked through."""
    host, everything = standin_host, request.param == "all"
    since = time.time() - 1
    archive = tmp_path_factory.mktemp("bundle") / "host.tar.gz"
    old = Canary("replaced API key", deploys.api_key(host))
    with (
        put_back(host, everything),
        outside.machine(host) as other,
        secrets_everywhere.planted(host, other.address, metrics=everything) as door,
    ):
        told = [old, *secrets_everywhere.canaries(host)]
        with spied(host, told) as spy:
            texts = dict(shown(host, archive))
            texts |= dict(shown_by_all_tasks(host, archive.parent)) if everything else {}
        told = [old, *secrets_everywhere.canaries(host)]
        yield Searched(
            host,
            told,
            search_host(host, told, metrics_ports(host)),
            spy,
            search_texts(told, texts),
            search_control(host, told, since),
            listening(host),
            other,
            door,
        )
        if everything:
            assert_nothing_is_left(host, told)


def assert_nothing_is_left(host, told):
    """After an uninstall no secret of ours is on the host."""
    said = ran(UNINSTALL, "-y", *NOISY[:3], host=host)
    assert search_texts(told, {"uninstall": said}).hits == set()
    left = search_host(host, told, [])
    assert {name for name, *_ in left.hits} == {"bait"}


def test_without_a_front_door_another_machine_reaches_nothing(standin_host):
    own = {where for where, program in listening(standin_host).items() if program != "sshd"}
    assert {address for address, _ in own} == {"127.0.0.1"}
    with outside.machine(standin_host) as other:
        assert other.reaches({port for _, port in own}) == set()


def test_a_secret_is_in_its_own_files_and_in_no_other_place_of_the_host(searched):
    for canary in searched.told:
        where = searched.host.of(canary.name)
        files = {what for place, what in where if place != "environ"}
        assert files == {f"{file} 600 0:0" for file in canary.files}, canary.name


def test_the_key_is_in_the_environment_of_the_server_and_the_other_secrets_in_none(searched):
    hits = [(name, what) for name, place, what in searched.host.hits if place == "environ"]
    vllm = deploys.on_host("id -u vllm", host=searched.name)
    assert hits == [("API key", f"of uid {vllm}")]


def test_nobody_else_on_the_host_could_read_a_secret_at_any_moment(searched):
    """Process lists, other processes' environments, and files while they were written."""
    spy = searched.spy
    assert {where for _, where in spy.of("bait")} == {"cmdline", "environ", "/tmp/bait"}
    assert {name for name, *_ in spy.hits} == {"bait"}
    assert min(spy.searched.values()) > 20


def test_no_run_shows_a_secret(searched):
    assert searched.texts.hits == set()
    assert min(searched.texts.searched.values()) > 100


def test_on_this_machine_they_are_in_the_operators_own_files_alone(searched):
    found: dict[str, set[tuple[str, str]]] = {}
    for name, _, what in searched.control.hits:
        path, _, mode = what.rpartition(" ")
        found.setdefault(name, set()).add((path.rsplit("/", 1)[1], mode))
    assert found == {
        "API key": {("api_key", "600")},
        "replaced API key": {("api_key.previous", "600")},
        "Hugging Face token": {("canary-token", "600")},
        "webhook": {("canary-hook", "600")},
        "sudo's password": {("data.json", "600")},
    }


def test_there_was_something_in_every_place_that_was_searched(searched):
    host = searched.host
    assert {place for place in PLACES if not host.searched.get(place)} == set()
    for place in ("other files", "cmdline", "environ", "journal", "units", "metrics"):
        assert host.searched[place] > 100, place
    assert {place for place, _ in host.of("bait")} >= {*BAITED}


def test_only_the_front_door_listens_on_another_address_than_loopback(searched):
    own = {where: program for where, program in searched.listening.items() if program != "sshd"}
    assert set(own.values()) >= {"vllm", "nginx"}
    open_to_all = {where for where in own if where[0] != "127.0.0.1"}
    assert open_to_all == {("0.0.0.0", searched.door)}


def test_another_machine_reaches_the_front_door_and_nothing_else_of_ours(searched):
    ports = {port for _, port in searched.listening}
    assert len(ports) >= 3
    assert searched.outside.reaches(ports) == {searched.door}


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/models", 200), *((path, 404) for path in ("/metrics", "/invocations", "/tokenize"))],
)
def test_another_machine_gets_what_the_key_protects_and_only_with_the_key(searched, path, status):
    name = searched.name
    certificate = deploys.on_host("cat /etc/vllm/front-door/tls/certificate.pem", host=name)
    asked = searched.door, certificate, path
    assert searched.outside.ask(*asked, deploys.api_key(name)) == status
    assert searched.outside.ask(*asked) == (401 if status == 200 else status)
