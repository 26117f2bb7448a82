"""The settings of a report, a part of `Settings`."""

from typing import Annotated

from pydantic import BaseModel, Field

from tasks.shared.traffic import periods


class ReportSettings(BaseModel):
    """Which time tasks/report.py is about."""

    time_zone: periods.TimeZone | None
    hours: Annotated[int, Field(ge=1, le=24 * 366)] | None
    weekdays: periods.Weekdays | None
    hours_of_day: periods.HoursOfDay | None
