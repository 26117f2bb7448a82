"""A damaged hostkit: said to be so in one line, planned around, and mended by a deploy."""

import pytest
from pyinfra.api.exceptions import PyinfraError

from tasks.shared.cuda import Repository
from tasks.shared.operations import cuda

from . import deploys
from .operations import run_operation

STATE = "/opt/vllm/hostkit/hostkit/health/state.py"
UNITS = "/opt/vllm/hostkit/hostkit/host/units.py"
MAIN = "/opt/vllm/hostkit/__main__.py"

SAID = "hostkit on this host cannot be asked ("


def campaign(*values):
    return pytest.param(*values, marks=pytest.mark.campaign)


@pytest.fixture
def host(standin_host):
    """The stand-in's host with its server serving, and hostkit whole again afterwards."""
    deploys.on_host("cp -a /opt/vllm/hostkit/. /srv/hostkit", host=standin_host)
    yield standin_host
    deploys.on_host("cp -a /srv/hostkit/. /opt/vllm/hostkit", host=standin_host)


def pid(host):
    return deploys.on_host("systemctl show vllm -p MainPID --value", host=host)


def lines_about_hostkit(done):
    assert "Traceback" not in done.stderr
    assert "Could not load fact" not in done.stderr
    return [line for line in done.stderr.splitlines() if SAID in line]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (f"sed -i '/^def state/q' {STATE}", "IndentationError: "),
        campaign(f"truncate -s 0 {MAIN}", "__main__.py is cut short"),
        campaign(f"rm {UNITS}", "cannot import name 'units'"),
        campaign(f"echo 'broken(' >>{STATE}", "SyntaxError: "),
    ],
)
def test_a_plan_says_that_hostkit_is_damaged_and_goes_on(host, damage, why):
    before = pid(host)
    deploys.on_host(damage, host=host)
    done = deploys.pyinfra("deploy.py", "--dry", host=host)
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = lines_about_hostkit(done)
    assert why in line
    assert line.endswith(
        "deploy.py installs it again; this plan says nothing of what only it knows"
    )
    # The plan goes on to its end, and mends.
    assert "Install hostkit" in done.stderr
    assert "operations: nothing to change" in done.stderr
    assert pid(host) == before


def test_nothing_is_switched_by_a_damaged_hostkit_and_the_next_deploy_mends_it(host):
    before = pid(host)
    deploys.on_host(f"rm {UNITS}", host=host)
    for task in ("restart_vllm", "rollback_vllm"):
        # Planned, read and confirmed: the line stands in the plan and at its refusal.
        done = deploys.pyinfra(f"tasks/{task}.py", answer="\n", host=host)
        assert done.returncode == 1
        planned, refused = lines_about_hostkit(done)
        assert planned.endswith("this plan says nothing of what only it knows")
        assert refused.endswith("): deploy.py installs it again")
    planned = deploys.pyinfra(
        "tasks/upgrade_vllm.py", "--dry", "--data", "max_num_seqs=3", host=host
    )
    assert planned.returncode == 0, planned.stderr[-3000:]
    assert len(lines_about_hostkit(planned)) == 1
    assert "flags: + max-num-seqs: 3" in planned.stderr
    done = deploys.pyinfra("deploy.py", answer="\n", host=host)
    assert done.returncode == 0, done.stderr[-3000:]
    assert pid(host) == before
    assert deploys.hostkit_state(host)["answering"]
    assert deploys.deploy_json(host=host).success == 0


def test_a_command_of_a_damaged_hostkit_fails_with_the_line_that_says_what_mends_it(host, caplog):
    """One that no question to hostkit comes before."""
    deploys.on_host("echo 'broken(' >>/opt/vllm/hostkit/hostkit/host/process.py", host=host)
    wanted = Repository("http://127.0.0.1:9/", "AB" * 20)
    with pytest.raises(PyinfraError):
        run_operation(host, cuda.key_trusted, repository=wanted, path="/srv/key.gpg")
    said = f"{SAID}SyntaxError: '(' was never closed): deploy.py installs it again"
    assert [line for line in caplog.messages if "Error: executed" not in line][-1].endswith(said)
    assert "Traceback" not in caplog.text
