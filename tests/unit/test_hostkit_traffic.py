"""Counting exactly: the lives of a server, where its counters are read, what is made of it."""

import json
import urllib.parse

import pytest

from hostkit import cli
from hostkit.host.process import Failure
from hostkit.metrics import lives, traffic
from hostkit.metrics.lives import Count, Life
from hostkit.metrics.prometheus import Prometheus
from tests.imitation_http import Quiet, serving

FIRST = Life(began=100, seen=(115, 130, 145))
SECOND = Life(began=200, seen=(215, 230, 245))


def test_each_start_of_the_process_begins_a_life():
    samples = [(115, 100), (130, 100), (145, 100), (215, 200), (230, 200), (245, 200)]
    assert lives.lives(samples) == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("looked", "start", "end", "counts"),
    [
        # The interval holds all of both lives: they counted from 0.
        ([], 90, 300, [Count(None, 145), Count(None, 245)]),
        # It begins within the first one: what that had at its last sample before is not counted.
        ([], 131, 300, [Count(130, 145), Count(None, 245)]),
        ([], 130, 300, [Count(130, 145), Count(None, 245)]),
        # It ends within the second one.
        ([], 146, 231, [Count(None, 230)]),
        ([], 146, 199, []),
        # Nobody looked before 115 and the server is older than the interval: 115 is the base.
        ([115, 130], 110, 140, [Count(115, 130)]),
        # Somebody looked, and it did not serve yet.
        ([109, 115, 130], 110, 140, [Count(None, 130)]),
    ],
)
def test_counters_are_read_at_the_edges_of_lives_and_of_the_interval(looked, start, end, counts):
    assert lives.counts([FIRST, SECOND], looked, start, end) == counts


def test_intervals_that_adjoin_count_everything_once():
    def read(count):
        return {145: 30, 245: 12, 130: 20, 115: 10, 215: 4, 230: 8, None: 0}[count]

    def total(*edges):
        looked = range(85, 300, 15)
        parts = [lives.counts([FIRST, SECOND], looked, *edge) for edge in edges]
        return sum(read(c.end) - read(c.base) for part in parts for c in part)

    assert total((90, 300)) == 42
    for cut in range(91, 300):
        assert total((90, cut), (cut, 300)) == 42, cut


def test_starts_are_those_within_the_interval():
    assert lives.starts([FIRST, SECOND], 90, 300) == 2
    assert lives.starts([FIRST, SECOND], 100, 300) == 1
    assert lives.starts([FIRST, SECOND], 90, 199) == 1


def test_time_is_watched_while_samples_follow_each_other():
    assert lives.watched_s([85, 100, 115, 130], 100, 130) == 30
    assert lives.watched_s([95, 110], 100, 120) == 10
    assert lives.watched_s([100, 115, 300, 315], 90, 400) == 30
    assert lives.watched_s([], 90, 400) == 0


def api(answers):
    """An imitation of Prometheus' API: answers queries from a list of (query's start, answer)."""

    class Handler(Quiet):
        def do_POST(self):
            query = dict(urllib.parse.parse_qsl(self.sent().decode()))
            status, answer = next(
                (found for start, found in answers if query["query"].startswith(start)),
                (200, {"data": {"result": []}}),
            )
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.reply(status, content)

    return serving(Handler)


def matrix(*samples, **labels):
    found = {"metric": labels, "values": [[at, str(value)] for at, value in samples]}
    return 200, {"data": {"result": [found]}}


def test_a_server_whose_lives_cannot_be_told_is_refused():
    with (
        api([("up{", matrix((110, 1), (125, 1)))]) as asked,
        pytest.raises(Failure, match="no process_start_time_seconds on its /metrics"),
    ):
        traffic.traffic(Prometheus(asked.server_port), [(100, 200)], 60)
    with api([("up{", matrix((110, 0), (125, 0)))]) as asked:
        (found,) = traffic.traffic(Prometheus(asked.server_port), [(100, 200)], 60)["intervals"]
    assert (found["up_s"], found["watched_s"], found["counted"]) == (0, 15, [])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((422, {"error": "too many samples"}), "refused a query: too many samples"),
        ((500, b"<html>"), "refused a query: 500 Internal Server Error"),
        ((200, b"<html>"), "is no Prometheus"),
        ((200, {"data": {}}), "is no Prometheus"),
    ],
)
def test_an_answer_that_is_none_is_said_in_one_line(answer, words, capsys):
    with api([("", answer)]) as asked:
        assert cli.main(["traffic", str(asked.server_port), "[[0,60]]", "60"]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_no_prometheus_is_said_in_one_line_with_what_to_look_at(capsys):
    with api([]) as asked:
        port = asked.server_port
    assert cli.main(["traffic", str(port), "[[0,60]]", "60"]) == 1
    said = capsys.readouterr().err
    assert f"no Prometheus answers at http://127.0.0.1:{port}" in said
    assert "systemctl status vllm-prometheus" in said


@pytest.mark.parametrize("text", ["[]", "[[60,0]]", "[[0]]", "nonsense"])
def test_intervals_that_are_none_are_refused(text, capsys):
    with pytest.raises(SystemExit):
        cli.main(["traffic", "9090", text, "60"])
    assert "argument intervals" in capsys.readouterr().err
