"""A report of a day that a real Prometheus keeps says what the list of its requests says."""

import itertools
import json
import socket
import subprocess
import time
import urllib.request

import pytest

from hostkit.metrics import traffic
from hostkit.metrics.prometheus import Prometheus
from tasks.shared.facts.traffic import Traffic
from tasks.shared.traffic.figures import SOURCES, Figures
from tests import promtool
from tests.unit import traffic_history as history

HOUR = 3600
START, END = history.START, history.END


@pytest.fixture(scope="module")
def served():
    return history.requests()


@pytest.fixture(scope="module")
def prometheus(served, tmp_path_factory):
    """The port of a Prometheus that knows the day."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "history").write_text(history.openmetrics(served))
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")
    made = promtool.run(
        *("tsdb", "create-blocks-from", "openmetrics", "--quiet", "history", "data"), cwd=folder
    )
    assert made.returncode == 0, made.stderr
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(promtool.program("prometheus")),
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    log = (folder / "log").open("wb")
    with log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        try:
            deadline = time.monotonic() + 60
            while not is_ready(port):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.1)
            yield port
        finally:
            process.terminate()


def is_ready(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready") as answer:
            return answer.status == 200
    except OSError:
        return False


def figures(port, *intervals, step=600):
    said = json.dumps(traffic.traffic(Prometheus(port), intervals, step))
    return Figures(Traffic.model_validate_json(said))


@pytest.mark.parametrize(
    "intervals",
    [
        [(START, END)],
        [(START, history.RESTARTS[0] + 30)],
        [(history.RESTARTS[0] + 60, END)],
        [(START, history.RESTARTS[0]), (history.RESTARTS[1], END)],
        [(START + 4 * HOUR, START + 18 * HOUR)],
    ],
    ids=["the day", "until a restart", "from one on", "two times", "over two restarts"],
)
def test_what_is_counted_is_what_was_asked(prometheus, served, intervals):
    found = figures(prometheus, *intervals)
    edges = {edge for interval in intervals for edge in interval}
    assert not any(abs(one.at - edge) < history.SCRAPE_S for one in served for edge in edges)
    asked = [one for one in served if any(a < one.at <= b for a, b in intervals)]
    assert found.requests == {"stop": len(asked)}
    assert found.counts.total("vllm:generation_tokens_total") == sum(o.generated for o in asked)
    tokens = [sum(column) for column in zip(*(one.tokens for one in asked), strict=True)]
    parts = found.tokens
    assert [parts.computed, parts.gpu_cache, parts.offloaded] == tokens
    for source in SOURCES:
        own = sorted(one.first_token_s for one in asked if one.source == source)
        histogram = found.first_token(source)
        assert histogram.count == len(own)
        assert histogram.sum == pytest.approx(sum(own))
        for bound, share in histogram.shares():
            assert share * len(own) == pytest.approx(sum(each <= bound for each in own))


def test_no_request_is_lost_or_counted_twice_where_intervals_adjoin(prometheus, served):
    edges = [START + n * 3456.7 for n in range(25)] + [END]
    parts = [figures(prometheus, pair, step=7200) for pair in itertools.pairwise(edges)]
    assert sum(part.ended for part in parts) == len(served)


def test_starts_and_time_watched_are_known(prometheus):
    found = figures(prometheus, (START, END))
    assert found.starts == 2
    blind = history.BLIND[1] - history.BLIND[0]
    assert found.watched_s == pytest.approx(24 * HOUR - blind, abs=2 * history.SCRAPE_S)
    down = len(history.RESTARTS) * history.DOWN_S
    assert found.watched_s - found.up_s == pytest.approx(down, abs=4 * history.SCRAPE_S)


def test_a_time_of_which_nothing_is_known_has_no_first_sample(prometheus):
    assert figures(prometheus, (START - 10 * HOUR, START - 9 * HOUR)).first_sample is None
