"""Tells one address of a failure: a webhook (https://…) or, by the host's own mailer, mailto:…."""

import json
import socket
import urllib.request
from argparse import Namespace
from pathlib import Path
from typing import Any

from hostkit.health import failures
from hostkit.host import paths
from hostkit.host.process import Failure, attempt

SENDMAIL = Path("/usr/sbin/sendmail")
TIMEOUT_S = 30


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("notify", help="send the newest failure where it is to be told")
    parser.add_argument("--test", action="store_true", help="send a line that says that it works")
    parser.set_defaults(run=notify, fetches=True)


def notify(args: Namespace) -> int:
    try:
        address = paths.NOTIFY.read_text("utf-8").strip()
    except FileNotFoundError:
        raise Failure("no address is set: notify_file in group_data/all.py") from None
    report = failures.latest()
    if args.test:
        body = {"text": f"vLLM on {socket.gethostname()}: this is where failures are told"}
    elif report is None:
        print("nothing has failed")
        return 0
    else:
        body = message(report, socket.gethostname())
    send(address, body)
    print("told")
    return 0


def message(report: dict[str, Any], host: str) -> dict[str, Any]:
    """What is sent: `text` is what chat services show, the rest is for programs."""
    lines = [
        f"vLLM on {host} failed: {report['what']} ({report['class']})",
        f"{report['cause']}",
        f"To do: {report['remedy']}",
    ]
    changed = failures.changed_versions(report)
    if changed:
        since = ", ".join(f"{name} {versions}" for name, versions in changed.items())
        lines.append(f"Changed since it last served: {since}")
    keys = ("class", "cause", "remedy", "generation", "number", "at")
    return {"text": "\n".join(lines), "host": host, **{key: report.get(key) for key in keys}}


def send(address: str, body: dict[str, Any]) -> None:
    """Failure says what went wrong, and never the address: it lets everybody write there."""
    if address.startswith("mailto:"):
        _mail(address.removeprefix("mailto:"), str(body["text"]))
        return
    request = urllib.request.Request(address, json.dumps(body).encode(), method="POST")
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S):
            pass
    except (OSError, ValueError) as error:
        # The text of an HTTPError has no URL in it; others may.
        code = getattr(error, "code", None)
        why = f"it answered {code}" if code else type(error).__name__
        raise Failure(f"the webhook was not told: {why}") from None


def _mail(to: str, text: str) -> None:
    if not SENDMAIL.exists():
        raise Failure(f"there is no {SENDMAIL}: install a mailer, or set a webhook")
    subject = text.splitlines()[0]
    mail = f"To: {to}\nSubject: {subject}\n\n{text}\n"
    # What it says may name the address.
    ended = attempt([SENDMAIL, "-t", "-oi"], str(SENDMAIL), told=mail, timeout_s=TIMEOUT_S)
    if ended.status:
        raise Failure(f"{SENDMAIL} ended with {ended.status}")
