"""What an operator is told of a failure, and where failures may be told."""

import pytest
from pydantic import ValidationError

from tasks.shared import notices, templates
from tasks.shared.facts.hostkit import HostState

FAILURE = {
    "number": 3,
    "at": 1796000000.0,
    "class": "no-gpu",
    "what": "the driver does not give the GPU",
    "remedy": "wsl --shutdown",
    "cause": "CUDA driver version is insufficient",
    "folder": "/var/lib/vllm/health/failures/3",
    "recovered": False,
    "count": 4,
    "changed": {"driver": "591.1 -> 600.2"},
}


def test_a_failure_is_told_with_its_cause_its_remedy_and_what_windows_changed():
    failure = HostState.model_validate({"failure": FAILURE}).failure
    assert failure is not None
    text = "\n".join(notices.failure_lines(failure))
    for each in ("4 times", "not served since", "insufficient", "wsl --shutdown", "591.1 -> 600.2"):
        assert each in text
    again = failure.model_copy(update={"count": 1, "recovered": True, "changed": {}})
    text = "\n".join(notices.failure_lines(again))
    assert "times" not in text
    assert "it has served since" in text


def test_what_the_guard_ended_is_told_with_its_reason_and_how_often():
    note = {"at": 1796000000.0, "reason": "97 MiB left: ended nvcc (7) of vllm.service", "count": 2}
    state = HostState.model_validate({"guard": note})
    assert state.guard is not None
    lines = notices.guard_lines(state.guard)
    assert lines[0] == (
        "Memory ran out at 2026-11-30 00:53 UTC, 2 times: "
        "97 MiB left: ended nvcc (7) of vllm.service"
    )
    assert "failures --seen" in lines[-1]
    once = state.guard.model_copy(update={"count": 1})
    assert "times" not in notices.guard_lines(once)[0]


def test_a_host_without_a_failure_has_none():
    assert HostState().failure is None
    assert HostState().guard is None


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        ("https://hooks.example/x\n", 0o644, "others can read this file"),
        ("hooks.example/x\n", 0o600, "must hold one https"),
        ("https://a\nhttps://b\n", 0o600, "must hold one line"),
        ("\n", 0o600, "must hold one line"),
    ],
)
def test_an_address_that_is_no_address_or_no_secret_is_refused(make, tmp_path, text, mode, told):
    file = tmp_path / "address"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(ValidationError, match=told) as caught:
        make(notify_file=str(file))
    assert "hooks.example" not in str(caught.value)


@pytest.mark.parametrize("text", ["https://hooks.example/x", "mailto:ops@example.org"])
def test_a_webhook_and_a_mail_address_are_accepted(make, tmp_path, text):
    file = tmp_path / "address"
    file.write_text(f"{text}\n")
    file.chmod(0o600)
    assert make(notify_file=str(file)).notify_file == str(file)


def test_nobody_looks_for_hangs_when_the_time_is_0(make):
    assert templates.watch(make(hang_after_s=0)) is None
    files = templates.watch(make(hang_after_s=120, hang_restart=True))
    assert files is not None
    assert "watch-progress --after 120 --restart\n" in files["vllm-watch.service"]
    plain = templates.watch(make(hang_after_s=120))
    assert plain is not None
    assert "--restart" not in plain["vllm-watch.service"]
