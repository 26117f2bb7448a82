"""Secrets are where they have to be, for root alone, and nowhere else: searched, not believed.

The search itself: canaries.py. All tasks: test_campaign_canaries.py.
"""

import time

import pytest

from . import deploys, secrets_everywhere, state, switching
from .canaries import BAITED, PLACES, Canary, search_control, search_host, search_texts, spied

NOISY = ["--diff", "-vvv", "--debug", "--debug-facts", "--debug-operations"]


def ran(task, *options, host, status=0):
    """What a run says; it ends with this status."""
    done = deploys.pyinfra(task, *options, host=host)
    assert done.returncode == status, done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def searched(standin_host, tmp_path_factory):
    """All of it is shown, written, rotated and made to fail; then everything is looked through."""
    host = standin_host
    since = time.time() - 1
    archive = tmp_path_factory.mktemp("bundle") / "host.tar.gz"
    old = Canary("replaced API key", deploys.api_key(host))
    with secrets_everywhere.planted(host):
        told = [old, *secrets_everywhere.canaries(host)]
        deploys.on_host("echo >>/etc/vllm/secrets.env", host=host)
        with spied(host, told) as spy:
            texts = {
                "plan": ran("deploy.py", "--dry", *NOISY, host=host),
                "deploy": ran("deploy.py", "-y", *NOISY[:3], host=host),
                "rotation": ran("tasks/rotate_api_key.py", "-y", "--json", *NOISY[:3], host=host),
            }
            current = deploys.hostkit_state(host)["current"]
            number = switching.variant(host, current, STANDIN_FAULT="exit")
            texts["failure"] = switching.switch(host, number, "--force")[1]
            ran("tasks/doctor.py", "--data", f"bundle={archive}", host=host, status=1)
            texts["bundle"] = archive.read_bytes()
            assert switching.switch(host, current)[0] == 0
        told = [old, *secrets_everywhere.canaries(host)]
        yield {
            "host": search_host(host, told, [state.load(host).api_port]),
            "spy": spy,
            "texts": search_texts(told, texts),
            "control": search_control(host, told, since),
            "told": told,
            "name": host,
        }
    deploys.on_host("python3 -IB /opt/vllm/hostkit failures --seen", host=host)
    assert deploys.deploy_json(host=host).error == 0


def test_a_secret_is_in_its_own_files_and_in_no_other_place_of_the_host(searched):
    for canary in searched["told"]:
        where = searched["host"].of(canary.name)
        files = {what for place, what in where if place != "environ"}
        assert files == {f"{file} 600 0:0" for file in canary.files}, canary.name


def test_the_key_is_in_the_environment_of_the_server_and_the_other_secrets_in_none(searched):
    hits = [(name, what) for name, place, what in searched["host"].hits if place == "environ"]
    vllm = deploys.on_host("id -u vllm", host=searched["name"])
    assert hits == [("API key", f"of uid {vllm}")]


def test_nobody_else_on_the_host_could_read_a_secret_at_any_moment(searched):
    """Process lists, other processes' environments, and files while they were written."""
    spy = searched["spy"]
    assert {where for _, where in spy.of("bait")} == {"cmdline", "environ", "/tmp/bait"}
    assert {name for name, *_ in spy.hits} == {"bait"}
    assert min(spy.searched.values()) > 20


def test_no_run_shows_a_secret(searched):
    assert searched["texts"].hits == set()
    assert min(searched["texts"].searched.values()) > 100


def test_on_this_machine_they_are_in_the_operators_own_files_alone(searched):
    found: dict[str, set[tuple[str, str]]] = {}
    for name, _, what in searched["control"].hits:
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
    host = searched["host"]
    assert {place for place in PLACES if not host.searched.get(place)} == set()
    for place in ("other files", "cmdline", "environ", "journal", "units", "metrics"):
        assert host.searched[place] > 100, place
    assert {place for place, _ in host.of("bait")} >= {*BAITED}
