"""What a load test asks of a server: pure functions."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hostkit.measure.benchmark import Run
from tasks.shared.facts.load_test import LoadTestOutlook
from tasks.shared.load_tests import trials
from tasks.shared.load_tests.choices import LoadTestSettings

SHORT_TOKENS = 512
LONG_TOKENS = 16_000
MIXED_TOKENS = (64, LONG_TOKENS)
LEAST_REQUESTS = 4
PROFILE_ANSWER = 32
SOAK_ROUNDS = 5
SOAK_SPARE_S = 3600
"""What the last round of a soak test may take beyond its time."""
ROOM = 32
"""Tokens that stay free beside a prompt and its answer."""
POOL_SHARE = 0.9
"""Of the KV pool: what all requests at once may fill, so that none is put off."""


@dataclass(frozen=True)
class Soak(Run):
    """The same run over and over, for so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Profile(Run):
    """Requests during which the server's profiler writes to a folder on the host."""

    folder: str


@dataclass(frozen=True)
class Scenario:
    """A few requests by hand, the long ones of so many tokens; `pool` is the GPU's KV pool."""

    name: str
    tokens: int
    pool: int
    offloads: bool


SCENARIOS = {
    "late_short": "late short question",
    "evicted": "evicted document",
    "evicted_restart": "evicted document, restart",
}
"""The settings' names, and those of the results."""


@dataclass(frozen=True)
class Waits:
    """Seconds to wait for a busy server, and that a start on the way may take."""

    wait_s: int
    deadline_s: int


@dataclass(frozen=True)
class Plan:
    """The runs, then the scenarios; and what was cut from what the settings ask for, in words."""

    runs: tuple[Run, ...]
    scenarios: tuple[Scenario, ...]
    cut: tuple[str, ...]
    soak: Soak | None = None
    profile: Profile | None = None

    @property
    def names(self) -> list[str]:
        soaks = [each.name for each in (self.soak, self.profile) if each]
        return soaks + [step.name for step in self.runs] + [each.name for each in self.scenarios]

    def names_of(self, labels: Sequence[str]) -> list[str]:
        """The steps' names in the result, with each generation on trial; none is the one there."""
        prefixes = [f"{label}: " for label in labels] or [""]
        return [prefix + name for prefix in prefixes for name in self.names]

    def order(self, identity: str, by: str, minutes: int, waits: Waits) -> dict[str, Any]:
        """What hostkit carries out, as JSON data."""
        return {
            "id": identity,
            "by": by,
            "wait_s": waits.wait_s,
            "deadline_s": waits.deadline_s,
            "trials": [],
            "budget_s": self.soak.seconds + SOAK_SPARE_S if self.soak else minutes * 60,
            "soak": asdict(self.soak) if self.soak else None,
            "profile": asdict(self.profile) if self.profile else None,
            "runs": [asdict(run) for run in self.runs],
            "scenarios": [asdict(scenario) for scenario in self.scenarios],
        }


def plan(settings: LoadTestSettings, host: LoadTestOutlook) -> Plan:
    """Every number of requests at once with every kind and length of prompts that the host takes.

    Prompts are cut to the model's length and to the KV pool; more requests at once than the server
    works on would only wait.
    """
    runs: list[Run] = []
    cut: list[str] = []
    for at_once in sorted(settings.load_test_concurrency):
        if at_once > host.max_num_seqs:
            cut.append(f"{at_once} in parallel: the server works on {host.max_num_seqs} at a time")
            continue
        longest = _longest(settings.load_test_answer, at_once, host)
        if longest < min(SHORT_TOKENS, MIXED_TOKENS[0]):
            cut.append(f"{at_once} in parallel: there is room for prompts of {longest} tokens only")
            continue
        if longest < LONG_TOKENS and {"long", "mixed"} & {*settings.load_test_lengths}:
            cut.append(
                f"{at_once} in parallel: prompts of at most {longest:,} instead of {LONG_TOKENS:,} "
                f"tokens (model {host.max_model_len:,}, KV pool {host.kv_tokens:,})"
            )
        count = max(LEAST_REQUESTS, settings.load_test_rounds * at_once)
        for kind in settings.load_test_prompts:
            for length in settings.load_test_lengths:
                runs.append(
                    Run(
                        f"{kind}, {length}, {at_once} in parallel",
                        kind,
                        tuple(min(n, longest) for n in _lengths(length, count, longest)),
                        settings.load_test_answer,
                        at_once,
                    )
                )
    if settings.profile:
        return Plan((), (), tuple(cut), profile=_profile(runs))
    if settings.soak:
        return Plan((), (), tuple(cut), _soak(settings, runs))
    return Plan(tuple(runs), tuple(_scenarios(settings, host, cut)), tuple(cut))


def _profile(runs: Sequence[Run]) -> Profile | None:
    """As many short requests at once as the plan's last run; answers long enough to be decoded."""
    if not runs:
        return None
    at_once = runs[-1].concurrency
    tokens = (min(SHORT_TOKENS, *runs[-1].tokens),) * at_once
    name = f"a step's profile, {at_once} in parallel"
    return Profile(name, "real", tokens, PROFILE_ANSWER, at_once, trials.PROFILE_DIR)


def _soak(settings: LoadTestSettings, runs: Sequence[Run]) -> Soak | None:
    """Rounds that are long beside what it takes to begin one; of the last run of the plan."""
    if not runs:
        return None
    last = runs[-1]
    tokens = last.tokens * SOAK_ROUNDS
    seconds = settings.soak * 3600
    return Soak(f"soak: {last.name}", last.prompts, tokens, last.answer, last.concurrency, seconds)


def _scenarios(
    settings: LoadTestSettings, host: LoadTestOutlook, cut: list[str]
) -> Iterator[Scenario]:
    tokens = min(LONG_TOKENS, _longest(settings.load_test_answer, 1, host))
    for name in settings.load_test_scenarios:
        if name == "evicted_restart" and not host.has_ssd_tier:
            cut.append(
                "evicted_restart: this generation has no SSD tier, nothing survives a restart"
            )
            continue
        yield Scenario(SCENARIOS[name], tokens, host.kv_tokens, host.offloads)


def _longest(answer: int, at_once: int, host: LoadTestOutlook) -> int:
    """Tokens of the longest prompt that fits."""
    longest = host.max_model_len - answer - ROOM
    if host.kv_tokens:
        longest = min(longest, int(POOL_SHARE * host.kv_tokens / at_once) - answer)
    return longest


def _lengths(length: str, count: int, longest: int) -> list[int]:
    """Tokens of each prompt; the same in every test, in an order that mixes short and long."""
    if length == "short":
        return [SHORT_TOKENS] * count
    if length == "long":
        return [LONG_TOKENS] * count
    low, high = MIXED_TOKENS[0], max(MIXED_TOKENS[0], min(MIXED_TOKENS[1], longest))
    spread = [round(low * (high / low) ** (index / (count - 1))) for index in range(count)]
    random.Random(count).shuffle(spread)
    return spread


def estimate_s(names: Sequence[str], last: Sequence[dict[str, Any]]) -> float | None:
    """How long these steps will take, by an earlier test's rows; None when it lacks one of them."""
    took: dict[str, float] = {row["name"]: row["took_s"] for row in last}
    if any(name not in took for name in names):
        return None
    return sum(took[name] for name in names)


def describe(made: Plan, labels: Sequence[str], estimate: float | None, minutes: int) -> list[str]:
    """The plan for the operator."""
    requests = sum(len(run.tokens) for run in made.runs)
    tokens = sum(sum(run.tokens) + len(run.tokens) * run.answer for run in made.runs)
    known = (
        f"about {estimate / 60:.0f} min, as last time" if estimate else "no earlier test to go by"
    )
    return [
        f"{len(made.runs)} runs, {requests} requests, {tokens:,} tokens"
        + "".join(f"; {scenario.name}" for scenario in made.scenarios),
        *([f"each with {', '.join(labels)}, after a restart; then back again"] if labels else []),
        f"{known}; at most {minutes} min (load_test_minutes)",
        *(f"left out or cut: {line}" for line in made.cut),
    ]
