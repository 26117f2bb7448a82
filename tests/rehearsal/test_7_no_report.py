"""A report that cannot be made: why is said, and zeros never stand for what is not known."""

import pytest

from . import deploys

TASK = "tasks/report.py"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (("metrics=False",), "no report: metrics = False: nothing is recorded"),
        (("metrics=True",), "no report: no Prometheus answers at http://127.0.0.1:"),
        (("metrics=True", "weekdays=mo"), 'must be days as in "mon-fri" or "sat,sun"'),
    ],
)
def test_without_figures_it_says_why_and_fails(standin_host, data, reason):
    arguments = [word for each in data for word in ("--data", each)]
    done = deploys.pyinfra(TASK, "-y", *arguments, host=standin_host)
    assert done.returncode == 1
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
