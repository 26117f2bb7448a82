"""Prometheus on a host: where it listens while it is installed, what it knows, and how it goes."""

import json

import pytest

from tasks.shared import metrics

from . import deploys, prometheus
from .host import state
from .listening import installed_as_it_comes, listeners

TASK = "tasks/metrics.py"
# Nothing listens there: whom it would tell must not keep Prometheus from its work.
ON = ("--data", "metrics=True", "--data", 'alertmanager="127.0.0.1:9"')
UNITS = "vllm-prometheus.service vllm-metrics.service"


def run(command, host):
    return deploys.on_host(command, host=host)


@pytest.fixture(scope="module")
def installed(standin_host):
    """A host on which metrics were switched on, and who listened meanwhile."""
    plan = deploys.pyinfra(TASK, "--dry", "--json", *ON, host=standin_host)
    planned = [row for row in json.loads(plan.stdout)["plan"] if row["hosts_with_change"]]
    with listeners(standin_host) as seen:
        done = deploys.deploy_json(*ON, host=standin_host, file=TASK)
        # Started, it listens a little later.
        prometheus.wait_until_ready(standin_host)
    assert (len(planned), done.success) == (4, 4)
    yield standin_host, seen
    run("apt-get -qq purge prometheus >/dev/null; systemctl unmask prometheus", standin_host)


def test_nothing_listens_on_another_address_than_loopback_at_any_time(installed):
    host, seen = installed
    assert {address for _, address, _ in seen} == {"127.0.0.1"}
    ours = state.load(host)
    assert ("prometheus", "127.0.0.1", ours.metrics_port) in seen
    assert ("python3", "127.0.0.1", ours.exporter_port) in seen


def test_a_second_run_changes_nothing(installed):
    host, _ = installed
    assert deploys.deploy_json(*ON, host=host, file=TASK).success == 0
    assert run("systemctl is-enabled prometheus || true", host) == "masked"


def test_its_units_are_hardened_and_understood(installed):
    host, _ = installed
    assert run(f"systemd-analyze verify {UNITS} 2>&1", host) == ""
    for unit in UNITS.split():
        scores = run(f"systemd-analyze security --no-pager {unit}", host)
        assert float(scores.splitlines()[-1].split(f"{unit}:")[1].split()[0]) <= 2.0, unit


def test_both_targets_are_up_and_the_rules_loaded(installed):
    host, _ = installed

    def health():
        targets = prometheus.ask(host, "targets")["activeTargets"]
        return {target["labels"]["job"]: target["health"] for target in targets}

    up = {"vllm": "up", "hostkit": "up"}
    deploys.wait_for("both targets", lambda: health() == up)
    rules = [rule for group in prometheus.ask(host, "rules")["groups"] for rule in group["rules"]]
    assert len(rules) == metrics.rules().count("expr:")
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}


def test_prometheus_knows_what_the_host_is_like(installed):
    host, _ = installed
    generation = deploys.hostkit_state(host)["current"]
    assert prometheus.value(host, 'vllm_host_service_state{state="active"}') == 1
    assert prometheus.value(host, f'vllm_host_generation_info{{generation="{generation}"}}') == 1
    assert prometheus.value(host, "vllm_host_kv_pool_tokens") == 293000
    assert prometheus.value(host, "sum(vllm_host_collector_success==0)") is None


def test_what_an_alertmanager_would_be_told_names_the_host(installed):
    host, _ = installed
    config = prometheus.ask(host, "status/config")["yaml"]
    assert f"external_labels:\n    host: {host}\n" in config
    (told,) = prometheus.ask(host, "alertmanagers")["activeAlertmanagers"]
    assert told["url"].startswith("http://127.0.0.1:9/")


def test_a_server_that_is_only_scraped_counts_as_idle(installed):
    host, _ = installed
    number = deploys.hostkit_state(host)["current"]
    run(f"python3 -IB /opt/vllm/hostkit check-switch {number}", host)


def test_off_is_off(installed):
    host, _ = installed
    assert deploys.deploy_json(host=host, file=TASK).success == 3
    assert deploys.deploy_json(host=host, file=TASK).success == 0
    assert run("pgrep -x prometheus || true", host) == ""
    assert run("ls /etc/vllm /etc/systemd/system", host).count("prometheus") == 1
    assert run("systemctl is-enabled prometheus || true", host) == "masked"


@pytest.mark.campaign
def test_without_the_mask_the_package_listens_on_every_address(installed):
    """Why it is masked."""
    host, _ = installed
    deploys.deploy_json(host=host, file=TASK)
    assert ("prometheus", "::", 9090) in installed_as_it_comes(host, "prometheus")
