"""Secrets on the control machine."""

import os
import stat

import pytest

from tasks.shared import credentials


@pytest.fixture(autouse=True)
def _forget():
    credentials.api_key.cache_clear()


def private(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def test_a_key_is_the_same_all_through_a_run_and_saved_only_when_told(tmp_path):
    file = tmp_path / "secrets/api_key"
    key = credentials.api_key(str(file))
    assert key == credentials.api_key(str(file))
    assert len(key) >= 40
    assert not file.parent.exists()
    credentials.save_api_key(str(file), key)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    credentials.api_key.cache_clear()
    assert credentials.api_key(str(file)) == key
    credentials.check_key_file(str(file))


def test_a_key_is_private_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        credentials.save_api_key(str(tmp_path / "key"), "k" * 20)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_rotation_gives_another_key(tmp_path):
    file = str(tmp_path / "api_key")
    credentials.save_api_key(file, credentials.api_key(file))
    old = credentials.token(file)
    new = credentials.api_key(file, rotate=True)
    assert new != old
    credentials.save_api_key(file, new)
    assert credentials.token(file) == new
    assert credentials.token(f"{file}.previous") == old


def test_the_digest_does_not_hold_the_key():
    assert credentials.digest("0123456789abcdef") not in "0123456789abcdef"
    assert credentials.digest("one") != credentials.digest("two")


UNUSABLE = ["", "\n", "two\nlines", "with space", 'quote"quote"', "$dollar", "ümlaut", "a\0b"]


@pytest.mark.parametrize("text", UNUSABLE)
def test_a_file_without_one_usable_line_is_refused(tmp_path, text):
    file = private(tmp_path / "f", text)
    for check in (credentials.check_key_file, credentials.check_token_file):
        with pytest.raises(ValueError, match="one line"):
            check(file)


def test_a_short_key_is_refused_and_a_short_token_is_not(tmp_path):
    file = private(tmp_path / "f", "fifteen-letters")
    with pytest.raises(ValueError, match="16 characters"):
        credentials.check_key_file(file)
    credentials.check_token_file(file)
    credentials.check_key_file(private(tmp_path / "g", "sixteen--letters"))


def test_a_missing_token_is_refused_and_a_missing_key_is_not(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        credentials.check_token_file(str(tmp_path / "gone"))
    credentials.check_key_file(str(tmp_path / "gone"))


def test_a_file_that_others_can_read_is_refused(tmp_path):
    file = private(tmp_path / "f", "0123456789abcdef")
    credentials.check_key_file(file)
    (tmp_path / "f").chmod(0o640)
    with pytest.raises(ValueError, match="chmod 600"):
        credentials.check_key_file(file)


def test_a_home_of_nobodys_is_refused_in_words(tmp_path):
    with pytest.raises(ValueError, match="nobody's home on this machine is ~no-such-user"):
        credentials.check_key_file("~no-such-user/key")
