"""What a repository says of its files, against what arrived."""

import subprocess

import pytest

from hostkit.model import hubfiles


@pytest.fixture
def folder(tmp_path):
    """Two files, and how a repository lists them; git itself says what it calls the small one."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/weights").write_bytes(b"abc")
    (tmp_path / "config.json").write_text("{}\n")
    asked = ["git", "hash-object", "--no-filters", tmp_path / "config.json"]
    blob = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    return tmp_path, {"sub/weights": f"sha256:{abc}", "config.json": f"git:{blob}"}


def test_what_arrived_as_it_is_listed_is_in_order(folder):
    path, listed = folder
    assert hubfiles.differing(path, listed) == []
    # What was not asked for is not there.
    assert hubfiles.differing(path, listed | {"other.bin": "sha256:0"}) == []


@pytest.mark.parametrize("name", ["sub/weights", "config.json"])
def test_one_changed_byte_is_found(folder, name):
    path, listed = folder
    content = bytearray((path / name).read_bytes())
    content[-1] ^= 1
    (path / name).write_bytes(content)
    assert hubfiles.differing(path, listed) == [name]


def test_a_digest_that_nobody_can_compute_is_no_agreement(folder):
    path, _ = folder
    with pytest.raises(ValueError, match=r"^weights: a digest of the kind 'xet' is not known$"):
        hubfiles.differing(path, {"sub/weights": "xet:1"})
