"""Which time a report is about."""

import datetime
from zoneinfo import ZoneInfo

import pytest

from tasks.shared.traffic import periods

BERLIN = ZoneInfo("Europe/Berlin")


def at(text, zone=BERLIN):
    return datetime.datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


NOW = at("2026-11-25T12:30")  # a Wednesday


def asked(now=NOW, **changes):
    nothing = {"hours": None, "weekdays": None, "hours_of_day": None, "time_zone": BERLIN}
    found = periods.intervals(now, **(nothing | changes))
    return [
        tuple(datetime.datetime.fromtimestamp(each, BERLIN).strftime("%d %H:%M") for each in pair)
        for pair in found
    ]


def test_without_anything_it_is_the_last_day_and_otherwise_as_many_hours_as_asked():
    assert asked() == [("24 12:30", "25 12:30")]
    assert asked(hours=2) == [("25 10:30", "25 12:30")]


def test_weekdays_are_those_of_the_last_week_and_adjoin():
    assert asked(weekdays="mon-fri") == [("18 12:30", "21 00:00"), ("23 00:00", "25 12:30")]
    assert asked(weekdays="sat,sun") == [("21 00:00", "23 00:00")]
    assert asked(weekdays="fri-mon") == [("20 00:00", "24 00:00")]


def test_hours_of_day_are_cut_at_now_and_at_the_beginning():
    assert asked(weekdays="wed,thu", hours_of_day="9-18") == [
        ("18 12:30", "18 18:00"),
        ("19 09:00", "19 18:00"),
        ("25 09:00", "25 12:30"),
    ]
    assert asked(hours=48, hours_of_day="22-24") == [
        ("23 22:00", "24 00:00"),
        ("24 22:00", "25 00:00"),
    ]


def test_a_day_on_which_the_clock_is_changed_has_as_many_hours_as_it_has():
    # 2026-10-25: at 3:00 the clock goes back to 2:00.
    (interval,) = periods.intervals(
        at("2026-10-26T12:00"),
        hours=48,
        weekdays="sun",
        hours_of_day=None,
        time_zone=BERLIN,
    )
    assert interval[1] - interval[0] == 25 * 3600


def test_the_zone_says_when_a_day_begins():
    tokyo = asked(weekdays="wed", hours=24, time_zone=ZoneInfo("Asia/Tokyo"))
    assert tokyo == [("24 16:00", "25 12:30")]


def test_a_time_without_such_a_moment_is_refused():
    with pytest.raises(ValueError, match="the last 12 h have no time that is sat 9-18"):
        asked(hours=12, weekdays="sat", hours_of_day="9-18")


@pytest.mark.parametrize("text", ["monday", "mon-", "mon-xyz", "", "1-5", "mon;tue"])
def test_days_that_are_none_are_refused(text, make):
    with pytest.raises(ValueError, match="must be days as in"):
        make(weekdays=text)
    make(weekdays="Mon-Fri, sun")


@pytest.mark.parametrize("text", ["9", "18-9", "9-25", "9:30-18", "9-9", "-1-5"])
def test_hours_that_are_none_are_refused(text, make):
    with pytest.raises(ValueError, match="must be two full hours"):
        make(hours_of_day=text)
    make(hours_of_day="0-24")


@pytest.mark.parametrize("name", ["Mars/Olympus", "../etc/passwd", "/etc/localtime", ""])
def test_a_time_zone_that_is_not_known_is_refused(name, make):
    with pytest.raises(ValueError, match="is no time zone that this machine knows"):
        make(time_zone=name)
    make(time_zone="Europe/Berlin")


def test_without_a_name_it_is_the_machines_own(tmp_path, monkeypatch):
    monkeypatch.setattr(periods, "_LOCALTIME", tmp_path / "none")
    assert periods.zone(None) is datetime.UTC
    local = tmp_path / "localtime"
    local.symlink_to("/usr/share/zoneinfo/Asia/Tokyo")
    monkeypatch.setattr(periods, "_LOCALTIME", local)
    assert datetime.datetime.fromtimestamp(0, periods.zone(None)).hour == 9
