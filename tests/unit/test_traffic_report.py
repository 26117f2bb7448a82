"""What a report says: its tables, its caveats, its refusals, and that its page stands alone."""

import datetime
import re
from html.parser import HTMLParser
from pathlib import PurePosixPath

import pytest

from tasks.shared.facts.traffic import Traffic
from tasks.shared.traffic import charts, report, rows
from tests.unit.traffic_samples import HOUR, START, counted, gauge, stretch, traffic

ASKED = report.Asked([(START, START + HOUR)], datetime.UTC)
NAME = "vllm_prompt_first_token_seconds"


def histogram(name, total, *counts, **labels):
    bounds = ("0.5", "1.0", "+Inf")
    buckets = [
        counted(f"{name}_bucket", value, le=bound, **labels)
        for bound, value in zip(bounds, counts, strict=True)
    ]
    number = counted(f"{name}_count", counts[-1], **labels)
    return [*buckets, number, counted(f"{name}_sum", total, **labels)]


def busy():
    """An hour with a request of each source, and every course."""
    course = [(START + 60.0 * n, float(n % 7)) for n in range(61) if n not in (20, 21, 22)]
    names = [name for picture in charts._PICTURES for name in picture.courses]
    own = stretch(
        counted("vllm:request_success_total", 3, finished_reason="stop"),
        counted("vllm:prompt_tokens_by_source_total", 1000, source="local_compute"),
        counted("vllm:prompt_tokens_by_source_total", 500, source="local_cache_hit"),
        counted("vllm:prompt_tokens_by_source_total", 500, source="external_kv_transfer"),
        counted("vllm:generation_tokens_total", 1234),
        counted("vllm:spec_decode_num_draft_tokens_total", 200),
        counted("vllm:spec_decode_num_accepted_tokens_total", 150),
        counted("vllm_prompt_prefill_seconds_total", 2.0, source="computed"),
        counted("vllm_prompt_computed_tokens_total", 1000, source="computed"),
        *histogram(NAME, 2.0, 0, 0, 1, source="computed"),
        *histogram(NAME, 0.25, 1, 1, 1, source="gpu_cache"),
        *histogram(NAME, 0.75, 0, 1, 1, source="offloaded"),
        kv_usage=gauge(0.25),
        running=gauge(3),
    )
    return traffic(own, **dict.fromkeys(names, course))


def said(found):
    return "\n".join(report.make("gpu-box", ASKED, found).lines())


def row(text, name):
    """The cells of a row of the terminal's tables."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(name)]
    return re.split(r"  +", line.strip())[1:]


def test_the_terminal_says_what_was_counted():
    text = said(busy())
    assert "Traffic of gpu-box, from Wed 2026-11-25 10:00 until Wed 2026-11-25 11:00 (UTC)" in text
    assert row(text, "ended") == ["3 (3 stop)"]
    assert row(text, "generated tokens") == ["1,234"]
    assert row(text, "offloaded: RAM and SSD") == ["500", "25.0 %"]
    assert row(text, "thanks to RAM and SSD") == ["1 s"]
    assert row(text, "speculated tokens accepted") == ["150 of 200 (75.0 %)"]
    assert row(text, "KV pool in use, mean") == ["25.0 %"]
    by_source = text.partition("by where the prompt came from")[2].partition("Prompt tokens")[0]
    assert row(by_source, "computed")[:3] == ["1", "2 s", "> 1 s"]
    assert row(by_source, "GPU cache")[:2] == ["1", "250 ms"]
    assert "Note:" not in text


def test_no_requests_are_said_in_words():
    text = said(traffic(stretch(counted("vllm:request_success_total", 0, finished_reason="stop"))))
    assert "Note: no request ended in this time" in text
    assert row(text, "ended") == ["0"]
    assert row(text, "prompt tokens") == ["-"]
    assert "Not measured: prompt_source_metrics is off" in text


def test_a_history_that_is_too_short_is_said_in_words():
    part = stretch().model_copy(update={"first_sample": START + 2400, "watched_s": 1200.0})
    text = said(traffic(part))
    assert "Note: Prometheus' records begin at Wed 2026-11-25 10:40, 40 min after" in text
    assert "were watched" not in text


def test_a_gap_in_the_history_is_said_in_words():
    part = stretch().model_copy(update={"watched_s": 1200.0})
    text = said(traffic(part))
    assert "Note: 20 min of 59.8 min were watched" in text
    assert "records begin" not in text


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (Traffic(problem="no Prometheus answers at …"), "no Prometheus answers at …"),
        (
            traffic(stretch().model_copy(update={"first_sample": None})),
            "Prometheus has recorded nothing of the server from Wed 2026-11-25 10:00",
        ),
    ],
)
def test_without_data_there_is_no_report(found, reason):
    with pytest.raises(report.NoFigures, match=re.escape(reason)):
        report.make("gpu-box", ASKED, found)


class Resources(HTMLParser):
    """Whatever a page would load."""

    def __init__(self):
        super().__init__()
        self.found = []
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.found += [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag in ("link", "img", "iframe", "object"):
            self.found.append(tag)


def test_the_page_stands_alone_and_has_every_picture():
    page = report.make("gpu-box", ASKED, busy()).page()
    parser = Resources()
    parser.feed(page)
    assert parser.found == []
    assert parser.tags.count("figure") == len(charts._PICTURES) + 1
    assert not re.search(r"@import|url\(", page)
    for picture in charts._PICTURES:
        assert picture.title.format(step="60 s") in page


def test_what_the_host_has_no_figures_of_is_not_drawn():
    page = report.make("gpu-box", ASKED, traffic(stretch())).page()
    assert "<figure>" not in page


def test_a_name_cannot_break_the_page():
    page = report.make("<script>alert(1)</script>", ASKED, busy()).page()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_no_line_is_drawn_over_a_time_of_which_nothing_is_known():
    points = [(0.0, 1.0), (60.0, 2.0), (240.0, 3.0), (300.0, 4.0)]
    assert charts.with_gaps(points, 60) == [*points[:2], (120.0, None), *points[2:]]
    assert charts.with_gaps([], 60) == []


def test_a_picture_has_so_few_points_that_it_stays_readable():
    assert ASKED.step_s == 60
    month = report.Asked([(START, START + 30 * 24 * HOUR)], datetime.UTC)
    assert 30 * 24 * HOUR / month.step_s <= 200


def test_each_host_and_time_has_a_file_of_its_own(tmp_path):
    made = report.make("@ssh/gpu box", ASKED, busy())
    file = report.write(made, "@ssh/gpu box", tmp_path / "reports")
    assert file == tmp_path / "reports/ssh-gpu-box-2026-11-25-110000.html"
    assert file.read_text(encoding="utf-8").endswith("</html>\n")


def test_the_path_for_windows_is_shown_under_wsl_only(monkeypatch):
    file = PurePosixPath("/home/me/vllm/reports/a.html")
    monkeypatch.delenv("WSL_DISTRO_NAME", raising=False)
    assert report.windows_path(file) is None
    monkeypatch.setenv("WSL_DISTRO_NAME", "Ubuntu-24.04")
    expected = r"\\wsl.localhost\Ubuntu-24.04\home\me\vllm\reports\a.html"
    assert report.windows_path(file) == expected


def test_the_settings_say_which_time_is_asked_for(make):
    whole = report.asked(make(time_zone="UTC"), START)
    assert (whole.intervals, whole.only) == ([(START - 24 * HOUR, START)], "")
    part = report.asked(make(time_zone="UTC", hours=3, weekdays="wed", hours_of_day="8-9"), START)
    assert part.intervals == [(START - 2 * HOUR, START - HOUR)]
    assert part.only == "wed 8-9"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"metrics": False}, "metrics = False: nothing is recorded"),
        ({"hours": 3, "weekdays": "sat"}, "the last 3 h have no time that is sat"),
    ],
)
def test_a_time_that_cannot_be_reported_is_refused(make, changes, reason):
    with pytest.raises(report.NoFigures, match=reason):
        report.asked(make(time_zone="UTC", **changes), START)


def test_the_period_names_what_it_is_restricted_to():
    part = report.Asked(ASKED.intervals, datetime.UTC, only="mon-fri 9-18")
    assert part.period.endswith("(UTC), only mon-fri 9-18")
    assert rows.moment(START, datetime.UTC) == "Wed 2026-11-25 10:00"
