"""The settings of a load test, a part of `Settings`."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, field_validator

Kind = Literal["synthetic", "real"]
Length = Literal["short", "long", "mixed"]
Scenario = Literal["late_short", "evicted", "evicted_restart"]


class LoadTestSettings(BaseModel):
    """What tasks/load_test.py asks, and how much worse it may come out."""

    load_test_concurrency: list[Annotated[int, Field(ge=1, le=512)]]
    load_test_prompts: list[Kind]
    load_test_lengths: list[Length]
    load_test_scenarios: list[Scenario]
    load_test_rounds: Annotated[int, Field(ge=1, le=100)]
    load_test_answer: Annotated[int, Field(ge=2, le=4096)]
    load_test_minutes: Annotated[int, Field(ge=1, le=300)]
    load_test_tolerance: Annotated[int, Field(ge=1, le=100)]
    load_test_baseline: Literal["last", "new"]
    sweep: Literal["mtp"] | None
    profile: Literal[0, 1]
    soak: Annotated[float, Field(ge=0, le=20)]

    @field_validator(
        "load_test_concurrency", "load_test_prompts", "load_test_lengths", "load_test_scenarios"
    )
    @classmethod
    def _each_once(cls, value: list[int | str]) -> list[int | str]:
        if len(set(value)) != len(value):
            raise ValueError("names one of them twice")
        return value
