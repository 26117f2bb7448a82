"""The report of real traffic: its figures are those of the requests that the test has sent."""

import re
import time

from . import deploys, prometheus

TASK = "tasks/report.py"
MODEL = "smollm2-135m"
ROW = re.compile(r"^ *\[\S+\] +(\S.*?) {2,}(\S+)", re.MULTILINE)


def newest_sample(host):
    """When Prometheus last looked at the server, in Unix time."""
    return prometheus.value(host, 'timestamp(up{job="vllm"})') or 0.0


def reported(host):
    """The rows of a report that holds everything so far: name to its first cell."""
    now = float(deploys.on_host("date +%s.%N", host=host))
    deploys.wait_for("a look at the server", lambda: newest_sample(host) > now)
    done = deploys.pyinfra(TASK, "-y", host=host)
    assert done.returncode == 0, done.stderr
    return ROW.findall(done.stderr), done.stderr


def number(rows, name):
    return float(next(cell for title, cell in rows if title == name).replace(",", ""))


def test_it_counts_what_was_sent(deployed):
    start = int(time.time()) % 10000 + 10000
    one, other = ([*range(first, first + 400)] for first in (start, start + 400))
    sent = [(one, 3), (other, 5), (one, 7)]  # the last one finds most of its prompt in the cache
    before, _ = reported(deployed)
    for prompt, tokens in sent:
        body = {"model": MODEL, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True}
        status, said = deploys.request(deployed, "/v1/completions", body, deploys.api_key(deployed))
        assert status == 200, said
    after, said = reported(deployed)

    def rise(name):
        return number(after, name) - number(before, name)

    assert rise("ended") == len(sent)
    assert rise("prompt tokens") == sum(len(prompt) for prompt, _ in sent)
    assert rise("generated tokens") == sum(tokens for _, tokens in sent)
    assert rise("to the first token") == len(sent)
    assert rise("between tokens") == sum(tokens - 1 for _, tokens in sent)
    sources = [(title, cell) for title, cell in after if title in ("computed", "GPU cache")]
    earlier = [(title, cell) for title, cell in before if title in ("computed", "GPU cache")]
    grown = {
        title: float(cell.replace(",", "")) - float(was.replace(",", ""))
        # The first table that has these rows is that of times to the first token.
        for (title, cell), (_, was) in zip(sources[:2], earlier[:2], strict=True)
    }
    assert grown == {"computed": 2, "GPU cache": 1}
    file = re.search(r"With pictures: (\S+\.html)", said)
    assert file
    with open(file[1], encoding="utf-8") as page:
        assert "<svg" in page.read()
