"""Where a model lies on the host, and what tells one model from another."""

import os

import pytest

from tasks.shared import models


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = tmp_path / "tiny"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights")
    yield model
    forget()


def forget():
    models.content_identity.cache_clear()
    models.content_hashes.cache_clear()


def test_each_form_has_its_folder_on_the_host(folder):
    assert models.parse("host:/srv/m/").folder_on_host == "/srv/m"
    commit = "0123456789" * 4
    assert models.parse(f"hf:a/b@{commit}").folder_on_host == (
        "/var/lib/vllm/models/a--b-012345678901"
    )
    identity = models.content_identity(str(folder))
    assert models.parse(f"control:{folder}").folder_on_host == (
        f"/var/lib/vllm/models/tiny-{identity[:12]}"
    )


def test_other_weights_lie_in_another_folder(folder):
    before = models.content_identity(str(folder))
    (folder / "model.safetensors").write_bytes(b"Weights")
    forget()
    assert models.content_identity(str(folder)) != before


def test_a_copy_is_the_same_model(folder, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    assert models.content_identity(str(copy)) == models.content_identity(str(folder))


def test_a_hash_is_remembered_for_as_long_as_the_file_is_the_same(folder, monkeypatch):
    before = models.content_hashes(str(folder))
    forget()
    read = []

    def reading(file):
        read.append(file.name)
        return "x"

    monkeypatch.setattr(models, "_sha256", reading)
    assert models.content_hashes(str(folder)) == before
    assert read == []
    forget()
    os.utime(folder / "config.json", (1, 1))
    models.content_hashes(str(folder))
    assert read == ["config.json"]


def test_a_damaged_memory_is_read_anew(folder):
    before = models.content_hashes(str(folder))
    forget()
    models._memory().write_text("nonsense")
    assert models.content_hashes(str(folder)) == before
