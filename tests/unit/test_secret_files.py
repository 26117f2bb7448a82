"""Files on the host that only root should read: what is refused or warned of, and what passes."""

from typing import Any

import pytest

from tasks.shared import front_door
from tasks.shared.facts.file_access import FileAccess
from tasks.shared.host_checks import blocking, judge
from tests.unit.machines import changed

CERTIFICATE, KEY, NETRC = "/srv/mine.pem", "/srv/mine.key", "/root/.netrc"
MINE: dict[str, Any] = {
    "front_door": True,
    "front_door_certificate": CERTIFICATE,
    "front_door_certificate_key": KEY,
}
SELF_SIGNED: dict[str, Any] = {
    "front_door": True,
    "front_door_certificate": front_door.SELF_SIGNED,
    "front_door_names": ["gpu.lan"],
}
PUBLIC = {CERTIFICATE: ("root", 0o644)}

Files = dict[str, tuple[str, int]]


def bad(own, files, make):
    """What is not in order, as (level, what, all that is said)."""
    machine = changed(private={path: FileAccess(*access) for path, access in files.items()})
    return [
        (f.level, f.what, " ".join((f.found, f.wanted, f.remedy)))
        for f in judge(machine, make(**own))
        if f.level != "ok"
    ]


REFUSED: list[tuple[dict[str, Any], Files, str, list[str]]] = [
    (MINE, PUBLIC | {KEY: ("root", 0o644)}, "front_door_certificate_key",
     [f"{KEY} is root's, mode 644", f"sudo chmod 600 {KEY}", "replace what is in it"]),
    (MINE, PUBLIC | {KEY: ("root", 0o660)}, "front_door_certificate_key", ["mode 660"]),
    (MINE, PUBLIC | {KEY: ("www-data", 0o600)}, "front_door_certificate_key",
     ["www-data's", f"sudo chown root: {KEY}"]),
    (MINE, PUBLIC, "front_door_certificate_key", [f"{KEY} is not there"]),
    (MINE, {KEY: ("root", 0o600)}, "front_door_certificate", [f"{CERTIFICATE} is not there"]),
    (SELF_SIGNED, {front_door.OWN_KEY: ("root", 0o640)}, "front_door_certificate_key",
     ["mode 640"]),
]  # fmt: skip


@pytest.mark.parametrize(("own", "files", "what", "words"), REFUSED)
def test_a_front_door_whose_key_is_no_secret_is_refused(make, own, files, what, words):
    ((level, found, said),) = bad(own, files, make)
    assert (level, found) == ("refusal", what)
    assert [word for word in words if word not in said] == []


PASSES: list[tuple[dict[str, Any], Files]] = [
    (MINE, PUBLIC | {KEY: ("root", 0o600)}),
    (MINE, PUBLIC | {KEY: ("root", 0o400)}),
    # Debian's group ssl-cert.
    (MINE, PUBLIC | {KEY: ("root", 0o640)}),
    ({}, PUBLIC | {KEY: ("root", 0o644)}),
    (SELF_SIGNED, {}),
    (SELF_SIGNED, {front_door.OWN_KEY: ("root", 0o600)}),
    ({}, {NETRC: ("root", 0o600)}),
]


@pytest.mark.parametrize(("own", "files"), PASSES)
def test_a_key_of_roots_and_at_most_a_groups_passes(make, own, files):
    assert bad(own, files, make) == []


def test_the_key_of_a_self_signed_certificate_is_put_right_by_the_deploy(make):
    key = {front_door.OWN_KEY: FileAccess("root", 0o644)}
    found = judge(changed(private=key), make(**SELF_SIGNED))
    assert blocking(found, cures_follow=True) == []
    assert len(blocking(found, cures_follow=False)) == 1


def test_passwords_for_downloads_that_others_may_read_are_warned_of(make):
    ((level, what, said),) = bad({}, {NETRC: ("root", 0o644)}, make)
    assert (level, what) == ("warning", NETRC)
    assert f"chmod 600 {NETRC}" in said
