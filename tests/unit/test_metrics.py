"""What Prometheus is told, judged by its own promtool; what hostkit's figures look like to it."""

import json
import re
import subprocess

import pytest
from pydantic import ValidationError

from hostkit.generation import generations
from hostkit.host import gpus, paths
from hostkit.metrics import exporter, exposition, figures, gpufigures, hostfigures
from hostkit.metrics.exposition import Metric, Sample, gauge
from tasks.shared import metrics, templates
from tests import promtool

OPEN = ["open-to-the-network"]


def write(folder, tree):
    for name, text in tree.items():
        (folder / name).write_text(text)


def test_prometheus_takes_its_configuration(make, tmp_path):
    write(tmp_path, templates.prometheus(make()))
    done = promtool.run("check", "config", str(tmp_path / "prometheus.yml"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("changes", [{}, {"alertmanager": "10.0.0.5:9093"}])
def test_all_that_prometheus_is_told_stands_in_its_command_line(make, changes):
    """systemd ends it at a line that is not continued, and says nothing of what comes after."""
    unit = templates.prometheus_unit(make(**changes))
    (command,) = re.findall(r"^ExecStart=((?:.*\\\n)*.*)$", unit, re.MULTILINE)
    assert unit.count(" --") == command.count(" --")
    assert "--storage.tsdb.path=/var/lib/vllm/prometheus" in command
    assert ("--enable-feature=expand-external-labels" in command) == bool(changes)


@pytest.mark.parametrize("at", ["10.0.0.5:9093", "alerts.lan:80", "[fd00::5]:9093"])
def test_an_alertmanager_is_told_and_by_which_host(make, tmp_path, at):
    told = make(alertmanager=at)
    write(tmp_path, templates.prometheus(told))
    done = promtool.run("check", "config", str(tmp_path / "prometheus.yml"))
    assert done.returncode == 0, done.stderr
    assert f'targets: ["{at}"]' in str(templates.prometheus(told)["prometheus.yml"])
    unit = templates.prometheus_unit(told)
    assert "\nEnvironment=HOST=%H\n" in unit
    assert "alerting:" not in str(templates.prometheus(make())["prometheus.yml"])


@pytest.mark.parametrize(
    "at", ["10.0.0.5", "http://10.0.0.5:9093", "a b:1", 'x"]:1', "a:0", "a:65536"]
)
def test_what_is_no_host_and_port_of_an_alertmanager_is_refused(make, at):
    with pytest.raises(ValidationError, match="must be a host and a port"):
        make(alertmanager=at)


def test_alerts_that_nobody_makes_are_not_told(make):
    with pytest.raises(ValidationError, match="set metrics = True"):
        make(alertmanager="10.0.0.5:9093", metrics=False)


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("0.0.0.0", "127.0.0.1:8000"),
        ("::", "[::1]:8000"),
        ("localhost", "localhost:8000"),
        ("fd00::7", "[fd00::7]:8000"),
    ],
)
def test_the_server_is_asked_where_it_listens(monkeypatch, address, target):
    monkeypatch.setattr(generations, "linked", lambda link: 7)
    monkeypatch.setattr(generations, "note", lambda number: {"address": address, "port": 8000})
    assert json.loads(exporter.targets()) == [{"targets": [target]}]


def test_without_a_generation_there_is_no_server_to_ask(monkeypatch):
    monkeypatch.setattr(generations, "linked", lambda link: None)
    assert json.loads(exporter.targets()) == []


def test_nothing_of_it_listens_on_another_address_than_loopback(make):
    address = {"listen_address": "0.0.0.0", "accept_risks": OPEN}
    settings = make(**address, metrics_port=9999, metrics_exporter_port=9998)
    unit = templates.prometheus_unit(settings)
    assert re.findall(r"--web\.\S+", unit) == ["--web.listen-address=127.0.0.1:9999"]
    assert "figures --serve 9998" in templates.metrics_unit(settings)
    assert exporter.ADDRESS == "127.0.0.1"


def test_what_is_kept_is_bounded_in_days_and_bytes(make):
    unit = templates.prometheus_unit(make())
    assert "--storage.tsdb.retention.time=90d" in unit
    assert "--storage.tsdb.retention.size=2GB" in unit
    assert make(metrics_retention_days=30)
    with pytest.raises(ValidationError, match="metrics_retention_days"):
        make(metrics_retention_days=29)


def test_two_listeners_on_one_port_are_refused(make):
    with pytest.raises(ValidationError, match="metrics_port and port are both 8000: set one"):
        make(metrics_port=8000)
    with pytest.raises(ValidationError, match="metrics_exporter_port and metrics_port are both 1"):
        make(metrics_port=10000, metrics_exporter_port=10000)
    assert make(metrics_port=8000, metrics=False).ports == {8000: "port"}
    assert make(metrics_port=8001).ports[8001] == "metrics_port"


def test_a_changed_rule_or_port_restarts_prometheus(make, monkeypatch):
    before = templates.prometheus_unit(make())
    assert templates.prometheus_unit(make(metrics_exporter_port=9092)) != before
    assert templates.prometheus_unit(make()) == before
    monkeypatch.setattr(metrics, "rules", lambda: "groups: []\n")
    assert templates.prometheus_unit(make()) != before


def check(text):
    """promtool's judgement of a text of metrics: syntax and conventions of naming."""
    command = [str(promtool.program()), "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_what_hostkit_says_is_readable_and_well_named(monkeypatch):
    smi = "0, GPU-a, 12227, 11000, 97, 61, 180.52, 250.00, 2512\n"
    smi += "1, GPU-b, 12227, 3, 0, 40, [N/A], [N/A], 210\n"
    monkeypatch.setitem(exporter.COLLECTORS, "gpu", lambda: gpufigures.parse(smi))
    told = exporter.text()
    assert check(told) == ""
    assert 'vllm_host_gpu_memory_used_bytes{gpu="0",uuid="GPU-a"} 11534336000\n' in told
    assert 'vllm_host_gpu_utilization_ratio{gpu="0",uuid="GPU-a"} 0.97\n' in told
    assert 'vllm_host_gpu_power_watts{gpu="0",uuid="GPU-a"} 180.52\n' in told
    assert told.count("vllm_host_gpu_power_watts{") == 1
    assert 'vllm_host_collector_success{collector="gpu"} 1\n' in told


@pytest.mark.parametrize("said", ["", "No devices were found\n", "0, GPU-a, 12227\n"])
def test_what_cannot_be_read_costs_only_its_own_figures(said, monkeypatch, capsys):
    monkeypatch.setattr(gpus, "smi", lambda *_, **__: said)
    monkeypatch.setattr(hostfigures, "gpus_needed", lambda: 2)
    told = exporter.text()
    assert "vllm_host_gpu" not in told
    assert 'vllm_host_collector_success{collector="gpu"} 0\n' in told
    assert 'vllm_host_collector_success{collector="machine"} 1\n' in told
    assert "figures of gpu: " in capsys.readouterr().err


def test_nvidia_smi_is_not_asked_where_nothing_computes_on_a_gpu(monkeypatch):
    monkeypatch.setattr(gpus, "smi", lambda *_, **__: pytest.fail("asked"))
    monkeypatch.setattr(hostfigures, "gpus_needed", lambda: 0)
    assert 'vllm_host_collector_success{collector="gpu"} 1\n' in exporter.text()


def test_a_label_may_hold_anything():
    text = exposition.render([gauge("vllm_x", "X.", 1, path='a"b\\c\nd')])
    assert text.splitlines()[-1] == r'vllm_x{path="a\"b\\c\nd"} 1'
    assert check(text) == ""


def test_a_metric_without_a_value_is_not_shown():
    assert exposition.render([gauge("vllm_x", "X.", None), Metric("y", "gauge", "Y.", ())]) == ""


@pytest.mark.parametrize("value", [0, 1.5, 0.1, 3e17, 1e-9, -4])
def test_a_value_is_written_without_loss(value):
    text = exposition.render([Metric("x", "gauge", "X.", (Sample(value, {}),))])
    assert float(text.split()[-1]) == value


def test_a_damaged_file_of_figures_costs_only_its_damaged_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "HEALTH", tmp_path)
    figures.write("a", [figures.Figure("bytes", "gauge", "Size.", 5)])
    (tmp_path / "b.prom").write_bytes(b"\\xff\\x00vllm_b 1\nvllm_c\nvllm_d 2\nvllm_e 1 2 3\n")
    assert figures.written().splitlines() == [
        "# HELP vllm_a_bytes Size.",
        "# TYPE vllm_a_bytes gauge",
        "vllm_a_bytes 5",
        "vllm_d 2",
    ]
