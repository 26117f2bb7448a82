"""Which time a report is about: the last hours, or certain weekdays and hours of day in them."""

import datetime
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator

Interval = tuple[float, float]
"""Unix times: after the first, until the second."""

DAY_H = 24
WEEK_H = 7 * DAY_H
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_LOCALTIME = Path("/etc/localtime")


def _weekdays(text: str) -> str:
    parse_weekdays(text)
    return text


def _hours_of_day(text: str) -> str:
    parse_hours_of_day(text)
    return text


def _time_zone(name: str) -> str:
    zone(name)
    return name


Weekdays = Annotated[str, AfterValidator(_weekdays)]
HoursOfDay = Annotated[str, AfterValidator(_hours_of_day)]
TimeZone = Annotated[str, AfterValidator(_time_zone)]


def parse_weekdays(text: str) -> frozenset[int]:
    """ "mon-fri" or "sat,sun" as numbers, Monday is 0. Raises ValueError."""
    found: set[int] = set()
    for part in text.lower().replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        if first not in _DAYS or (dash and last not in _DAYS):
            raise ValueError(f'must be days as in "mon-fri" or "sat,sun": {", ".join(_DAYS)}')
        start = _DAYS.index(first)
        count = (_DAYS.index(last) - start) % 7 if dash else 0
        found |= {(start + n) % 7 for n in range(count + 1)}
    return frozenset(found)


def parse_hours_of_day(text: str) -> tuple[int, int]:
    """ "9-18": from 9:00 until 18:00; 24 is the end of the day. Raises ValueError."""
    match = re.fullmatch(r"(\d{1,2})-(\d{1,2})", text)
    if not match or not 0 <= int(match[1]) < int(match[2]) <= DAY_H:
        raise ValueError('must be two full hours, as in "9-18"; 24 is the end of the day')
    return int(match[1]), int(match[2])


def zone(name: str | None) -> datetime.tzinfo:
    """The time zone of that name; None: this machine's own. Raises ValueError."""
    if name is None:
        if not _LOCALTIME.is_file():
            return datetime.UTC
        with _LOCALTIME.open("rb") as file:
            return ZoneInfo.from_file(file)
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError(
            'is no time zone that this machine knows; "Europe/Berlin" is one, and '
            "`timedatectl list-timezones` lists all (package tzdata)"
        ) from None


def intervals(
    now: float,
    *,
    hours: int | None,
    weekdays: str | None,
    hours_of_day: str | None,
    time_zone: datetime.tzinfo,
) -> list[Interval]:
    """The intervals asked for, in order, those that adjoin as one.

    `hours` back from `now`; when it is None a day, and a week where only some of it counts.
    Raises ValueError when no moment of that time is on such a day and hour.
    """
    is_part = weekdays is not None or hours_of_day is not None
    start = now - 3600 * (hours or (WEEK_H if is_part else DAY_H))
    if not is_part:
        return [(start, now)]
    found: list[Interval] = []
    for begin, end in _daily(start, now, weekdays, hours_of_day, time_zone):
        begin, end = max(begin, start), min(end, now)
        if begin >= end:
            continue
        if found and found[-1][1] == begin:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    if not found:
        raise ValueError(
            f"the last {round((now - start) / 3600)} h have no time that is "
            f"{' '.join(filter(None, (weekdays, hours_of_day)))}: set hours higher"
        )
    return found


def _daily(
    start: float,
    end: float,
    weekdays: str | None,
    hours_of_day: str | None,
    time_zone: datetime.tzinfo,
) -> Iterator[Interval]:
    """The hours of each day that may lie in that time, by the zone's own clock."""
    days = parse_weekdays(weekdays) if weekdays else frozenset(range(7))
    first, last = parse_hours_of_day(hours_of_day) if hours_of_day else (0, DAY_H)
    day = datetime.datetime.fromtimestamp(start, time_zone).date()
    while day <= datetime.datetime.fromtimestamp(end, time_zone).date():
        if day.weekday() in days:
            yield _at(day, first, time_zone), _at(day, last, time_zone)
        day += datetime.timedelta(days=1)


def _at(day: datetime.date, hour: int, time_zone: datetime.tzinfo) -> float:
    if hour == DAY_H:
        day, hour = day + datetime.timedelta(days=1), 0
    return datetime.datetime(day.year, day.month, day.day, hour, tzinfo=time_zone).timestamp()
