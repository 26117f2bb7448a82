"""What the doctor gathers on the host: from an imitated /proc, and of a host that has nothing."""

import io
import json
import tarfile

import pytest

from hostkit.generation import generations
from hostkit.health import doctor, evidence, support
from hostkit.host import good, paths, units
from hostkit.host.process import Failure
from hostkit.serving import running
from tasks.shared import trees
from tasks.shared.facts.doctor import Report

MAPS = """\
7f00-7f01 r-xp 00000000 08:01 11    /opt/r/site-packages/vllm/_C.abi3.so
7f02-7f03 r--p 00000000 08:01 11    /opt/r/site-packages/vllm/_C.abi3.so
7f04-7f05 r-xp 00000000 08:01 12    /opt/r/site-packages/torch/lib/a b.so (deleted)
7f06-7f07 r-xp 00000000 08:01 13    /usr/lib/libc.so.6
7f08-7f09 rw-p 00000000 00:00 0
7f0a-7f0b rw-p 00000000 00:00 0     [heap]
"""


def test_what_a_server_has_loaded_of_its_release_is_told_from_what_was_replaced():
    there, gone = running.mapped(MAPS, "/opt/r/site-packages/")
    assert (there, gone) == ({"vllm/_C.abi3.so"}, {"torch/lib/a b.so"})


def test_a_variable_is_meant_other_or_nobodys():
    found = {"MAX_JOBS": "8", "PATH": "/bin", "VLLM_API_KEY": "k", "LANG": "C", "NCCL_DEBUG": "x"}
    meant = {"MAX_JOBS": "1", "PATH": "/bin", "HOME": "/h"}
    assert running.differences(found, meant) == [
        ("MAX_JOBS", "8", "1"),
        ("HOME", None, "/h"),
        ("NCCL_DEBUG", None, None),
    ]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Authorization: Bearer S3CRET, then", "Authorization: [secret] then"),
        ("authorization:S3CRET", "authorization: [secret]"),
        ("Authorization: Basic S3CRET", "Authorization: [secret]"),
        ("Authorization: S3CRET is refused", "Authorization: [secret] refused"),
        ("a bearer S3CRET came", "a bearer [secret] came"),
        ("the bearer", "the bearer"),
    ],
)
def test_what_stands_behind_a_header_is_cut_out_with_and_without_a_scheme(text, kept):
    assert evidence.redacted(text, []) == kept


@pytest.fixture
def generation(tmp_path, monkeypatch):
    """The folder of a generation 3 whose note vouches for its serve.yaml."""
    monkeypatch.setattr(paths, "GENERATIONS", tmp_path)
    folder = tmp_path / "3"
    folder.mkdir()
    (folder / "serve.yaml").write_text("port: 8000\n")
    note = dict.fromkeys(generations._NOTED, "") | {
        "files": {"serve.yaml": running._digest(folder / "serve.yaml")}
    }
    (folder / "generation.json").write_text(json.dumps(note))
    return folder


def test_an_edited_file_of_a_generation_is_named(generation):
    assert running.edited(3) == []
    (generation / "serve.yaml").write_text("port: 8001\n")
    assert running.edited(3) == ["serve.yaml"]
    (generation / "serve.yaml").unlink()
    assert running.edited(3) == ["serve.yaml"]


def test_the_digest_of_hostkit_is_the_one_that_the_control_machine_makes(monkeypatch, tmp_path):
    (tmp_path / "hostkit").mkdir()
    (tmp_path / "__main__.py").write_text("# ä\n")
    (tmp_path / "hostkit/a.py").write_text("a = 1\n")
    (tmp_path / "note.txt").write_text("no part of it")
    monkeypatch.setattr(paths, "HOSTKIT", tmp_path)
    assert doctor._hostkit() == trees.digest(trees.read(tmp_path))


def test_a_question_that_fails_is_named_and_keeps_no_other_from_being_asked(monkeypatch):
    def fails():
        raise Failure("nvidia-smi did not answer")

    monkeypatch.setattr(good, "versions", fails)
    found = doctor.report()
    assert found["errors"] == {"versions": "nvidia-smi did not answer"}
    assert found["up_s"] > 0
    report = Report.model_validate_json(json.dumps(found))
    assert report.versions == {}
    assert report.state is not None


def _read(archive, member):
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


@pytest.fixture
def archived(monkeypatch):
    """The files of an archive that these sources give."""

    def archived(sources, secrets=()):
        monkeypatch.setattr(support, "sources", lambda: iter(sources))
        monkeypatch.setattr(evidence, "known_secrets", lambda: list(secrets))
        stream = io.BytesIO()
        support.write(stream)
        with tarfile.open(fileobj=io.BytesIO(stream.getvalue()), mode="r:gz") as archive:
            return {m.name: _read(archive, m).decode() for m in archive}

    return archived


def test_an_archive_has_no_secret_and_says_what_could_not_be_read(archived):
    def fails():
        raise FileNotFoundError(2, "No such file or directory", "x")

    texts = [("a", lambda: "key S3CRET-S3CRET."), ("b", fails), ("c", lambda: "bad \udc80")]
    found = archived(texts, ["S3CRET-S3CRET"])
    assert found["a"] == "key [secret]."
    assert found["b"].startswith("not available: ")
    assert found["c"] == "bad ?"


def test_an_archive_is_bounded_and_names_what_does_not_fit(archived, monkeypatch):
    monkeypatch.setattr(support, "EACH_BYTES", 100)
    monkeypatch.setattr(support, "ALL_BYTES", 150)
    found = archived([("a", lambda: "1" * 99 + "end"), ("b", lambda: "2" * 60), ("c", lambda: "3")])
    assert found == {"a": "1" * 97 + "end", "c": "3", "left-out.txt": "b: 60 bytes\n"}


def test_a_host_is_called_what_its_own_files_call_it(monkeypatch):
    files = {
        "/etc/hostname": "gpu-box\n",
        "/etc/hosts": "127.0.0.1 localhost\n127.0.1.1 gpu-box.lan gpu-box # me\n10.0.0.9 other\n",
    }
    monkeypatch.setattr(support, "_text", files.get)
    monkeypatch.setattr("socket.gethostname", lambda: "gpu-box")
    assert support.names()["hosts"] == ["gpu-box", "gpu-box.lan"]


def test_the_doctor_of_a_host_without_systemd_finds_no_unit(monkeypatch):
    monkeypatch.setattr(units, "show", lambda *names, unit="": dict.fromkeys(names, ""))
    assert {each["active"] for each in doctor._units().values()} == {""}
