"""The doctor on a host that serves: nothing when it is healthy, each fault by name when it is not.

It comes first among the tests with the stand-in, on a host as the deploy has left it.
"""

import tarfile

import pytest

from . import deploys
from .faults import (
    ADDRESS,
    CANARY,
    FAULTS,
    PERSON,
    assert_healthy,
    doctor,
    is_named,
    plant,
    remove,
    rows,
)

DRIFT = ("--data", "max_num_seqs=3")


def text(archive, member):
    file = archive.extractfile(member)
    assert file is not None
    return file.read().decode()


@pytest.fixture(scope="module")
def healthy(standin_host):
    """A host of which the doctor says nothing, before these tests and after them."""
    deploys.on_host("python3 -IB /opt/vllm/hostkit failures --seen", host=standin_host)
    assert_healthy(standin_host)
    yield standin_host
    assert_healthy(standin_host)


@pytest.fixture(scope="module")
def ill(healthy, tmp_path_factory):
    """All faults at once, and one run over them that writes an archive as well."""
    archive = tmp_path_factory.mktemp("bundle") / "all.tar.gz"
    deploys.request(healthy, f"/v1/x?api_key={CANARY}")
    plant(healthy, *FAULTS)
    try:
        untouched = deploys.snapshot(healthy)
        done = doctor(healthy, *DRIFT, "--data", f"bundle={archive}")
        yield done, archive, (untouched, deploys.snapshot(healthy))
    finally:
        remove(healthy, *FAULTS)


def test_a_host_with_faults_ends_with_exit_status_1_and_names_no_more_than_those(ill):
    done, _, _ = ill
    assert done.returncode == 1
    found = rows(done.stderr)
    known = {fault.what.split(" ")[0] for fault in FAULTS} | {"settings"}
    assert {what.split(" ")[0] for _, what, _ in found} == known


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_each_fault_is_named_with_its_remedy(ill, fault):
    done, _, _ = ill
    assert is_named(fault, rows(done.stderr)), done.stderr


def test_a_setting_that_is_not_deployed_is_shown_with_the_way_to_see_it(ill):
    done, _, _ = ill
    (rest,) = [rest for _, what, rest in rows(done.stderr) if what == "settings"]
    assert "flags: - max-num-seqs: 4" in rest
    assert "flags: + max-num-seqs: 3" in rest
    assert "deploy.py --dry --diff" in rest


def test_looking_changes_nothing_on_the_host(ill):
    before, after = ill[2]
    assert before == after


def test_the_archive_is_private_and_has_what_helps(ill):
    _, file, _ = ill
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as archive:
        names = archive.getnames()
    for name in ("doctor.txt", "doctor.json", "settings.json", "versions.txt", "host/metrics.txt"):
        assert name in names
    for end in ("/serve.yaml", "/generation.json", "-manifest.json", "999/journal.log"):
        assert any(name.endswith(end) for name in names), end
    assert "host/journal/vllm.service.log" in names


def test_no_secret_and_no_name_is_in_the_archive(ill, standin_host):
    _, file, _ = ill
    with tarfile.open(file) as archive:
        files = {m.name: text(archive, m) for m in archive}
    everything = "\n".join([*files, *files.values()])
    key = deploys.api_key(standin_host)
    hostname = deploys.on_host("hostname", host=standin_host)
    for private in (CANARY, key, hostname, standin_host, PERSON, ADDRESS):
        assert private.lower() not in everything.lower(), private
    assert "Authorization: [secret]" in files["host/failures/999/journal.log"]
    assert "/home/user-1/x at address-1" in files["host/failures/999/report.json"]
    assert "host-1" in files["host/failures/999/journal.log"]


def test_a_bundle_is_never_written_over_a_file(healthy, tmp_path):
    file = tmp_path / "a.tar.gz"
    file.touch()
    done = deploys.pyinfra("tasks/doctor.py", "--data", f"bundle={file}", host=healthy)
    assert done.returncode == 1
    assert "is there already: name another file" in done.stderr
