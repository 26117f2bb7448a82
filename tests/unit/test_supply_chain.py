"""Everything that fetches something is known by what pins it, and a changed byte is refused."""

import hashlib
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tasks.shared import cuda, models
from tests.test_repository import REPOSITORY, files, name, text

DATA = re.compile(r"\.md$|\.patch$|^requirements/.*\.txt$|^files/(locks/.*\.txt|patches|compat)")
HERE = "tests/unit/test_supply_chain.py"

FETCHES = {
    "pip": r"\bpip[3\"']*,? [\"']?(install|download)\b",
    "git": r"\bgit[\"',\] ]+.*\b(clone|fetch|pull)\b|\"fetch\", \"--quiet\"",
    "hub": r"\b(snapshot_download|hf_hub_download)\(",
    "http": r"\b(urlopen|urlretrieve|opener\.open|(requests|httpx)\.(get|post))\(",
    "tool": r"\b(curl|wget) +[-\"'h]|\b(uvx|pipx|npx) |\b(npm|cargo|go|gem) install\b",
}
"""What a line looks like that fetches something, by kind. apt checks its archives by itself."""

LOOPBACK = "127.0.0.1"
PINNED_BY = {
    ("requirements/venv.sh", "pip"): "--require-hashes",
    ("files/locks/compile.sh", "pip"): 'print(sys.argv[1], "--hash=sha256:" + hashes["sha256"])',
    ("files/hostkit/hostkit/release/tooling.py", "pip"): '("--no-deps", "--require-hashes")',
    ("files/hostkit/hostkit/release/source.py", "git"): '"--no-tags", url, commit]',
    ("files/hostkit/hostkit/model/fetch.py", "hub"): "hubfiles.differing(",
    ("files/hostkit/hostkit/release/cuda.py", "http"): "if found != [fingerprint]:",
    ("files/hostkit/hostkit/health/notify.py", "http"): 'method="POST"',
    ("files/hostkit/hostkit/serving/server.py", "http"): "generations.reached_at(",
    ("files/hostkit/hostkit/metrics/prometheus.py", "http"): LOOPBACK,
    ("tasks/shared/network.py", "http"): "requests.get; raises what that raises",
    ("maintenance/new_version.py", "pip"): "--require-hashes",
    ("maintenance/pin_patch.py", "git"): "sides = {",
}
"""What stands in a file besides: the check of what came, or why there is nothing to check.

Only patches are fetched through tasks/shared/network.py, and checked there.
"""

NEVER = (
    r"(curl|wget)\b.*\|\s*(sudo\s+)?(ba|z|da)?sh\b",
    r"--trusted-host|--allow-insecure-host|--no-check-certificate|--insecure\b|ssl_?verify.*false",
    r"verify ?= ?False|CERT_NONE|_create_unverified_context|check_hostname ?= ?False",
    r"allow-?unauthenticated|trusted=yes|allow-insecure-repositories|Verify-(Peer|Host)\W+(false|0)",
    r"StrictHostKeyChecking[= ]\"?(no|off)|AutoAddPolicy",
)
"""A download that nobody checks, whichever program makes it."""

REFUSED = {
    "requirements": f"{HERE}::test_the_test_tools_are_refused_with_one_changed_byte",
    "the wheel": "tests/unit/test_hostkit_release.py::test_a_changed_download_is_refused",
    "the wheel as it is kept": "tests/unit/test_hostkit_release.py::"
    "test_a_byte_changed_in_the_download_cache_is_not_installed",
    "a package": "tests/unit/test_hostkit_release.py::"
    "test_a_dependency_with_another_hash_is_refused",
    "a plugin": "tests/unit/test_plugins.py::"
    "test_a_plugin_with_another_hash_is_refused_and_nothing_is_left",
    "a patch": "tests/unit/test_hostkit_overlay.py::"
    "test_a_result_other_than_the_promised_one_fails",
    "a pinned patch": "tests/unit/test_pinned_patches.py::"
    "test_what_is_fetched_and_is_another_patch_is_refused_and_not_kept",
    "a pinned patch as it is kept": "tests/unit/test_pinned_patches.py::"
    "test_a_kept_file_that_was_changed_is_refused",
    "a model": "tests/rehearsal/test_3_model.py::"
    "test_a_file_with_one_changed_byte_is_refused_and_fetched_again",
    "a model of this machine": "tests/rehearsal/test_5_damage.py::"
    "test_a_damaged_model_is_sent_again_and_the_server_goes_on",
    "the key of NVIDIA's repository": "tests/rehearsal/test_2_cuda.py::"
    "test_the_wrong_key_is_refused_before_anything_comes_from_the_repository",
    "a package of NVIDIA's": "tests/rehearsal/test_2_cuda.py::test_a_changed_package_is_refused",
}
"""Where it is tried that each of these is refused when a byte of it is another one."""


def lines(of_tests: bool) -> list[tuple[Path, str]]:
    """The lines of what is run here or on a host, or of what only tests run; no comments."""
    return [
        (path, line)
        for path in files()
        if not DATA.search(name(path)) and name(path).startswith("tests/") == of_tests
        for line in text(path).splitlines()
        if not line.lstrip().startswith("#") and name(path) != HERE
    ]


def fetching(line: str) -> set[str]:
    return {kind for kind, pattern in FETCHES.items() if re.search(pattern, line)}


def unchecked(line: str) -> bool:
    return any(re.search(pattern, line, re.IGNORECASE) for pattern in NEVER)


def test_whatever_fetches_something_is_known_by_what_pins_it() -> None:
    found = {(name(path), kind) for path, line in lines(of_tests=False) for kind in fetching(line)}
    assert found == PINNED_BY.keys()
    for (file, _), check in PINNED_BY.items():
        assert check in text(REPOSITORY / file), file
    users = {name(path) for path, line in lines(of_tests=False) if "Network.of(" in line}
    assert users == {"tasks/shared/release/patches.py"}
    assert "fetched hunks have sha256" in text(REPOSITORY / "tasks/shared/release/patches.py")


def test_tests_fetch_packages_by_hash_and_else_from_this_machine_only() -> None:
    found = [(path, kind) for path, line in lines(of_tests=True) for kind in fetching(line)]
    pip = {path for path, kind in found if kind == "pip"}
    assert {name(path) for path in pip} >= {"tests/rehearsal/host/smollm2.py"}
    for path in pip - {REPOSITORY / "tests/unit/test_hostkit_release.py"}:
        assert "--require-hashes" in text(path), name(path)
    assert not [name(path) for path, kind in found if kind in ("git", "hub")]


def test_nothing_is_downloaded_that_nobody_checks() -> None:
    found = [
        f"{name(path)}: {line.strip()}"
        for of_tests in (True, False)
        for path, line in lines(of_tests)
        if unchecked(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("python -m pip install foo", {"pip"}),
        ('run(["pip", "download", "x"])', {"pip"}),
        ('self.uv("pip", "install", *wanted)', {"pip"}),
        ("git clone https://example.org/x", {"git"}),
        ('run([*git, "fetch", "--quiet", url])', {"git"}),
        ("requests.get(url)", {"http"}),
        ("curl -L https://example.org/x", {"tool"}),
        ("npm install x", {"tool"}),
        ("uv pip compile --quiet", set()),
        ("the pip that installs", set()),
    ],
)
def test_the_check_sees_what_fetches_something(line: str, kinds: set[str]) -> None:
    assert fetching(line) == kinds


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("curl -fsSL https://example.org/install | sudo sh", True),
        ("wget -qO- https://example.org/x | bash", True),
        ("pip install --trusted-host example.org x", True),
        ("requests.get(url, verify=False)", True),
        ("deb [trusted=yes] https://example.org/ /", True),
        ("apt-get --allow-unauthenticated install x", True),
        ("git -c http.sslVerify=false fetch", True),
        ("ssh -o StrictHostKeyChecking=no x", True),
        ("curl -fsS https://example.org/x | sha256sum --check", False),
        ("ssh -o StrictHostKeyChecking=yes x", False),
    ],
)
def test_the_check_sees_a_download_that_nobody_checks(line: str, bad: bool) -> None:
    assert unchecked(line) == bad


def test_each_source_of_packages_is_signed_by_a_key_that_is_known_before(make):
    assert cuda.DISTRIBUTIONS
    for distribution in cuda.DISTRIBUTIONS:
        repository = cuda.repository(make(), distribution)
        assert repository
        assert re.fullmatch(r"[0-9A-F]{40}", repository.fingerprint), distribution
        source = cuda.source(repository)
        assert f"Signed-By: {cuda.KEYRING}" in source or f"signed-by={cuda.KEYRING}" in source


@pytest.mark.parametrize("revision", ["main", "v1.0", "0123456", "g" * 40])
def test_a_model_is_named_by_a_commit(revision: str) -> None:
    with pytest.raises(ValueError, match="40"):
        models.parse(f"hf:someone/model@{revision}")
    assert models.parse(f"hf:someone/model@{'a' * 40}").revision == "a" * 40


@pytest.mark.parametrize("what", REFUSED)
def test_a_changed_byte_is_tried_where_it_is_said_to_be(what: str) -> None:
    file, _, test = REFUSED[what].partition("::")
    assert f"def {test}(" in text(REPOSITORY / file)


def test_the_test_tools_are_refused_with_one_changed_byte(tmp_path: Path) -> None:
    """As requirements/venv.sh asks for them; the wheel lies in a folder."""
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    info = "tiny-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    content = wheel.read_bytes()
    pins = tmp_path / "dev.txt"
    pins.write_text(f"tiny==1.0 --hash=sha256:{hashlib.sha256(content).hexdigest()}\n")
    script = text(REPOSITORY / "requirements/venv.sh").replace("\\\n", " ")
    (options,) = re.findall(r"python -m (pip install .*)", script)
    command = shlex.split(options.replace("$requirements", str(pins)))

    def install() -> subprocess.CompletedProcess[str]:
        here = ["--dry-run", "--ignore-installed", "--no-index", f"--find-links={tmp_path}"]
        asked = [sys.executable, "-m", *command, *here]
        return subprocess.run(asked, capture_output=True, text=True, check=False)

    assert install().returncode == 0
    wheel.write_bytes(content.replace(b"Version: 1.0\n", b"Version: 1.0 "))
    refused = install()
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr
