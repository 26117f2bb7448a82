"""A real Prometheus with our configuration tells an imitation of an Alertmanager of an alert."""

import json
import queue
import socket
import subprocess
from typing import Any

import pytest

from tasks.shared import templates
from tests import promtool
from tests.imitation_http import Quiet, serving

ALWAYS = """groups:
  - name: always
    rules:
      - alert: Always
        expr: vector(1)
"""


@pytest.fixture
def alertmanager():
    """Where the imitation listens, and a queue of what it is told."""
    told: queue.Queue[tuple[str, list[dict[str, Any]]]] = queue.Queue()

    class Handler(Quiet):
        def do_POST(self):
            told.put((self.path, json.loads(self.sent())))
            self.reply(200)

    with serving(Handler) as server:
        yield f"127.0.0.1:{server.server_port}", told


def test_an_alert_arrives_with_the_hosts_name(make, tmp_path, alertmanager):
    address, told = alertmanager
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = make(alertmanager=address)
    config = str(templates.prometheus(settings)["prometheus.yml"])
    (tmp_path / "prometheus.yml").write_text(config.replace("15s", "1s").replace("10s", "1s"))
    (tmp_path / "rules.yml").write_text(ALWAYS)
    unit = templates.prometheus_unit(settings)
    (feature,) = [word for word in unit.split() if word.startswith("--enable-feature")]
    command = [
        str(promtool.program("prometheus")),
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
        # It finds out who is to be told a few seconds after the first alert.
        "--rules.alert.resend-delay=1s",
        feature,
    ]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            command, cwd=tmp_path, env={"HOST": "gpu-box"}, stdout=log, stderr=log
        ) as process,
    ):
        try:
            path, (alert,) = told.get(timeout=60)
        finally:
            process.terminate()
    assert path == "/api/v2/alerts"
    assert alert["labels"] == {"alertname": "Always", "host": "gpu-box"}
