"""Mistakes in the settings as an operator meets them: the real pyinfra, nothing asked of a host."""

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PYINFRA = Path(sysconfig.get_path("scripts")) / "pyinfra"

TWO_HOSTS = """\
hosts = [
    ("@fake/one", {"port": 80, "gpuss": 1, "fake_delay": 0.0, "fake_delay_jitter": 0.0}),
    ("@fake/two", {"model": "nowhere", "fake_delay": 0.0, "fake_delay_jitter": 0.0}),
]
"""


def deploy(inventory, *arguments, file="deploy.py"):
    """Run pyinfra with everything that it asks of a host printed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYINFRA_")}
    return subprocess.run(
        [PYINFRA, inventory, file, "--dry", "-vvv", *arguments],
        cwd=REPOSITORY,
        env=environment | {"PYINFRA_PROGRESS": "off"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def two_hosts(tmp_path):
    inventory = tmp_path / "hosts.py"
    inventory.write_text(TWO_HOSTS)
    return str(inventory)


def test_every_mistake_of_every_host_is_listed_before_anything_is_asked(two_hosts):
    done = deploy(two_hosts)
    assert done.returncode == 1
    assert "3 mistakes in the settings:" in done.stderr
    for line in (
        "@fake/one: port = 80: must be greater than or equal to 1024",
        "@fake/one: gpuss: no such setting; did you mean gpus?",
        "@fake/two: model = 'nowhere': must be host:/folder",
    ):
        assert f"  {line}" in done.stderr
    assert "Traceback" not in done.stderr
    assert ">>>" not in done.stderr


def test_a_mistake_on_the_command_line_is_one_too():
    done = deploy("@local", "--data", "max_nun_seqs=4", "--data", "port=99999")
    assert done.returncode == 1
    assert "@local: max_nun_seqs: no such setting; did you mean max_num_seqs?" in done.stderr
    assert "@local: port = 99999: must be less than or equal to 65535" in done.stderr
    assert ">>>" not in done.stderr


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ('"ssh_usr": "me"', "@fake/one: ssh_usr: no such setting; did you mean ssh_user?"),
        ('"sudo": True', "@fake/one: sudo: no such setting; did you mean _sudo?"),
        ('"_sud": True', "@fake/one: _sud: pyinfra has no such argument; did you mean _sudo?"),
    ],
)
def test_a_misspelt_name_of_the_connection_is_one_too(tmp_path, data, line):
    inventory = tmp_path / "hosts.py"
    inventory.write_text(f'hosts = [("@fake/one", {{{data}}})]\n')
    done = deploy(str(inventory))
    assert done.returncode == 1
    assert f"  {line}" in done.stderr
    assert "1 mistake in the settings:" in done.stderr


def test_how_a_list_is_written_on_the_command_line_is_said_where_one_is_wanted():
    done = deploy("@local", "--data", "uninstall_also=models")
    assert "on the command line: 'uninstall_also=[" in done.stderr
    told = deploy("@local", "--data", 'uninstall_also=["models"]')
    assert "mistake" not in told.stderr


def test_a_number_where_text_is_expected_is_explained():
    done = deploy("@local", "--data", "served_model_name=007")
    assert "served_model_name = 7: must be text" in done.stderr
    assert done.returncode == 1


def test_the_twin_without_a_mistake_is_asked(tmp_path):
    """The same way in, correct: the host is asked, and only then refused, for it is none."""
    inventory = tmp_path / "hosts.py"
    inventory.write_text('hosts = [("@fake", {"fake_delay": 0.0, "fake_delay_jitter": 0.0})]\n')
    done = deploy(str(inventory), "--data", "max_num_seqs=4")
    assert ">>>" in done.stderr
    assert "cannot be deployed to" in done.stderr
    assert "mistake" not in done.stderr


EACH_TASK_ALONE = """\
from pathlib import Path
from pyinfra import local, logger
from pyinfra.api.exceptions import DeployError

for task in sorted(Path("tasks").glob("*.py")):
    try:
        local.include(str(task))
    except DeployError as error:
        logger.info(f"{task.name}: {' '.join(str(error).split())}")
"""


def test_each_task_checks_the_settings_before_it_asks_anything(tmp_path):
    (tmp_path / "tasks.py").write_text(EACH_TASK_ALONE)
    done = deploy("@local", "--data", "port=1", file=str(tmp_path / "tasks.py"))
    tasks = sorted(file.name for file in (REPOSITORY / "tasks").glob("*.py"))
    refusals = [
        line.split(": ", 1) for line in done.stderr.splitlines() if "port = 1: must" in line
    ]
    assert [name.strip() for name, _ in refusals] == tasks
    assert ">>>" not in done.stderr


LONG = "x" * 300
"""No file can be called so: looking for it fails as for one in a folder that may not be entered."""


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("api_key_file", LONG, f"@local: {LONG}: cannot be read: File name too long"),
        ("api_key_file", "~no-such-user/key", "nobody's home on this machine is ~no-such-user"),
        ("model", "control:~no-such-user/m", "nobody's home on this machine is ~no-such-user"),
        ("sbom", "~no-such-user/a.cdx.json", "nobody's home on this machine is ~no-such-user"),
        ("ca_certificates", "~no-such-user/ca", "nobody's home on this machine is ~no-such-user"),
    ],
)
def test_a_path_that_cannot_be_looked_at_is_a_mistake_in_one_line(setting, value, told):
    done = deploy("@local", "--data", f"{setting}={value}")
    assert done.returncode == 1
    assert told in done.stderr
    assert "1 mistake in the settings:" in done.stderr
    assert "Traceback" not in done.stderr
