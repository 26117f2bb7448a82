"""Telling one address of a failure, against an imitated webhook and an imitated sendmail."""

import json
from argparse import Namespace
from typing import ClassVar

import pytest

from hostkit.health import failures, notify
from hostkit.host import paths
from hostkit.host.process import Failure
from tests.imitation_http import Quiet, serving

REPORT = {
    "class": "gpu-memory",
    "what": "the GPU's memory did not suffice",
    "cause": "CUDA out of memory",
    "remedy": "lower it",
    "generation": 3,
    "number": 1,
    "at": 1.0,
    "versions": {"driver": "2"},
    "versions_when_good": {"driver": "1"},
}


@pytest.fixture
def webhook(tmp_path, monkeypatch):
    """The address of a webhook, and what it was told; it answers with `status`."""

    class Handler(Quiet):
        told: ClassVar[list[dict[str, object]]] = []
        status = 200

        def do_POST(self):
            Handler.told.append(json.loads(self.sent()))
            self.reply(Handler.status)

    Handler.told.clear()
    monkeypatch.setattr(paths, "NOTIFY", tmp_path / "notify")
    monkeypatch.setattr(failures, "latest", lambda: REPORT)
    with serving(Handler) as server:
        (tmp_path / "notify").write_text(f"http://127.0.0.1:{server.server_port}/S3CRET\n")
        yield Handler


def test_a_webhook_is_told_what_failed_and_what_to_do(webhook):
    assert notify.notify(Namespace(test=False)) == 0
    (told,) = webhook.told
    assert "CUDA out of memory\nTo do: lower it\n" in str(told["text"])
    assert str(told["text"]).endswith("Changed since it last served: driver 1 -> 2")
    assert (told["class"], told["generation"]) == ("gpu-memory", 3)


def test_a_webhook_that_refuses_is_a_failure_that_does_not_name_it(webhook, tmp_path):
    webhook.status = 403
    with pytest.raises(Failure, match=r"^the webhook was not told: it answered 403$"):
        notify.notify(Namespace(test=True))
    (tmp_path / "notify").write_text("http://127.0.0.1:1/S3CRET\n")
    with pytest.raises(Failure) as caught:
        notify.notify(Namespace(test=True))
    assert "S3CRET" not in str(caught.value)


def test_a_mail_goes_through_the_hosts_own_mailer(webhook, tmp_path, monkeypatch):
    mailer = tmp_path / "sendmail"
    monkeypatch.setattr(notify, "SENDMAIL", mailer)
    (tmp_path / "notify").write_text("mailto:ops@example.org\n")
    with pytest.raises(Failure, match="install a mailer"):
        notify.notify(Namespace(test=False))
    mailer.write_text(f"#!/bin/sh\ncat >{tmp_path}/mail\n")
    mailer.chmod(0o755)
    notify.notify(Namespace(test=False))
    mail = (tmp_path / "mail").read_text()
    assert mail.startswith("To: ops@example.org\nSubject: vLLM on ")
    assert "To do: lower it" in mail
    mailer.write_text("#!/bin/sh\necho 'ops@example.org: no such user' >&2\nexit 67\n")
    with pytest.raises(Failure, match=r"/sendmail ended with 67$"):
        notify.notify(Namespace(test=False))


def test_without_an_address_nobody_is_told(webhook, tmp_path):
    (tmp_path / "notify").unlink()
    with pytest.raises(Failure, match="notify_file"):
        notify.notify(Namespace(test=False))


def test_when_nothing_failed_nothing_is_told(webhook, monkeypatch):
    monkeypatch.setattr(failures, "latest", lambda: None)
    assert notify.notify(Namespace(test=False)) == 0
    assert webhook.told == []
