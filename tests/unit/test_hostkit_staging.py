"""A generation is unpacked, asked about and numbered in one go; the vLLM here is imitated."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hostkit import cli
from hostkit.generation import generations, staging
from hostkit.host import paths
from hostkit.host.process import Failure
from tasks.shared.trees import Link, pack

NOTED = dict.fromkeys(generations._NOTED, "x")


class Release:
    """A release that answers as it is told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "venv/bin").mkdir(parents=True)

    def answers(self, verdict: str, reason: str = "because", before: str = "") -> None:
        said = json.dumps({"verdict": verdict, "reason": reason})
        python = self.folder / "venv/bin/python"
        python.write_text(f"#!/bin/sh\n{before}\necho '{said}'\n")
        python.chmod(0o755)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "GENERATIONS", tmp_path / "opt/vllm/generations")
    return paths.GENERATIONS


@pytest.fixture
def release(tmp_path):
    found = Release(tmp_path / "release")
    found.answers("accepted")
    return found


def packed(release, digest="d1", **changes):
    note = json.dumps(NOTED | {"digest": digest})
    texts = {"serve.yaml": "model: x\n", "vllm.env": "", "vllm.service": "", **changes}
    return pack({**texts, "generation.json": note, "release": Link(str(release.folder))})


def names(place):
    return sorted(path.name for path in place.iterdir())


def stage(monkeypatch, text, number=3):
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    return cli.main(["stage", str(number)])


def test_an_accepted_generation_gets_its_number_and_keeps_the_answer(place, release, monkeypatch):
    assert stage(monkeypatch, packed(release)) == 0
    assert names(place) == ["3"]
    assert json.loads((place / "3/answer.json").read_text())["verdict"] == "accepted"
    assert (place / "3/serve.yaml").read_text() == "model: x\n"
    assert (place / "3/release").readlink() == release.folder
    assert {oct((place / name).stat().st_mode)[-3:] for name in ("3/serve.yaml",)} == {"644"}
    assert oct((place / "3").stat().st_mode)[-3:] == "755"


def test_a_refused_generation_is_not_staged_and_the_reason_is_one_line(
    place, release, monkeypatch, capsys
):
    release.answers("refused", "unrecognized arguments: --enforce-eagre")
    assert stage(monkeypatch, packed(release)) == 1
    said = capsys.readouterr().err
    assert "unrecognized arguments: --enforce-eagre" in said
    assert said.count("\n") == 1
    assert names(place) == []


def test_what_arrives_cut_short_leaves_nothing(place, release):
    text = packed(release)
    for length in range(0, len(text) - 12, 7):
        with pytest.raises(Failure, match=r"arrived (cut short|without)"):
            staging.stage(text[:length], 3)
    assert names(place) == []
    staging.stage(text, 3)


def test_a_number_that_was_taken_in_the_meantime_is_left_alone(place, release):
    staging.stage(packed(release), 3)
    with pytest.raises(Failure, match="taken in the meantime: run this again"):
        staging.stage(packed(release, "d2", **{"serve.yaml": "model: y\n"}), 3)
    assert (place / "3/serve.yaml").read_text() == "model: x\n"
    assert names(place) == ["3"]


def test_a_number_that_the_same_was_given_in_the_meantime_will_do(place, release):
    staging.stage(packed(release), 3)
    (place / "3/verified").touch()
    staging.stage(packed(release), 3)
    assert (place / "3/verified").exists()
    assert names(place) == ["3"]


def test_what_lies_under_its_number_without_a_note_is_no_generation(place, release):
    (place / "3").mkdir(parents=True)
    (place / "3/half").touch()
    staging.stage(packed(release), 3)
    assert not (place / "3/half").exists()


def start(root, text, number):
    """Another process that stages."""
    process = subprocess.Popen(
        [sys.executable, "-IB", "files/hostkit", "stage", str(number)],
        env=os.environ | {"HOSTKIT_ROOT": str(root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin
    process.stdin.write(text)
    process.stdin.close()
    return process


@pytest.fixture
def asking(tmp_path, release):
    """A staging that has come as far as its vLLM, which answers once `go` is there."""
    os.mkfifo(tmp_path / "asked")
    os.mkfifo(tmp_path / "go")
    release.answers("accepted", before=f"echo x >{tmp_path}/asked; cat {tmp_path}/go >/dev/null")
    process = start(tmp_path, packed(release), 3)
    assert (tmp_path / "asked").read_text() == "x\n"
    release.answers("accepted")
    yield process
    process.kill()
    process.wait()
    # The vLLM of one that was killed still waits for somebody to write.
    with contextlib.suppress(OSError):
        os.close(os.open(tmp_path / "go", os.O_WRONLY | os.O_NONBLOCK))


def test_the_next_staging_removes_at_once_what_a_killed_one_left(place, release, asking):
    (left,) = names(place)
    asking.send_signal(signal.SIGKILL)
    asking.wait()
    assert staging.abandoned() == [place / left]
    staging.stage(packed(release, "d2"), 4)
    assert names(place) == ["4"]


def test_two_stage_at_the_same_time_and_neither_is_disturbed(tmp_path, place, release, asking):
    assert staging.abandoned() == []
    staging.stage(packed(release, "d2"), 4)
    assert len(names(place)) == 2
    (tmp_path / "go").write_text("x")
    assert asking.wait(30) == 0
    assert names(place) == ["3", "4"]


def test_many_that_stage_the_same_number_at_once_leave_one_generation(place, release):
    ended = []

    def one(digest):
        try:
            staging.stage(packed(release, digest), 3)
            ended.append("staged")
        except Failure as failure:
            ended.append(str(failure))

    threads = [threading.Thread(target=one, args=(f"d{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended.count("staged") == 1
    assert {each for each in ended if each != "staged"} == {
        "generation 3 was taken in the meantime: run this again"
    }
    assert names(place) == ["3"]


def test_what_older_deploys_left_goes_and_what_has_not_one_of_our_names_stays(place, release):
    old = ["candidate-0123456789ab-01234567", "candidate-0123456789ab-01234567.new"]
    for name in [*old, "candidate-of-mine", "mine"]:
        (place / name).mkdir(parents=True)
    (place / "candidate-abcdefgh").symlink_to(place)
    staging.stage(packed(release), 3)
    assert names(place) == ["3", "candidate-abcdefgh", "candidate-of-mine", "mine"]
