"""The steps of a load test, one after the other, each begun with the server idle and time left."""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostkit.generation import generations
from hostkit.host import paths
from hostkit.host.jobs import progress
from hostkit.lifecycle import switch
from hostkit.measure import benchmark, scenarios, soak, stepprofile
from hostkit.serving import idle, server

ADVICE = "a load test takes turns with nobody: run it again when it is idle"

Row = dict[str, Any]


class Session:
    """A load test that goes on: the server, which a step may restart, and what has been measured.

    `result` gets a row for each step, and the names of those for which no time was left.
    """

    def __init__(self, found: server.Server, order: dict[str, Any], work: Path) -> None:
        self.found = found
        self.order = order
        self.work = work
        self.ends = time.monotonic() + order["budget_s"]
        self.rows: list[Row] = []
        self.not_run: list[str] = []
        # Of the server that serves then: a step may have restarted it.
        self.ratios = functools.cache(lambda g: benchmark.tokens_per_word(self.found, g))

    def carry_out(self) -> None:
        """All steps of the order, with each generation on trial; the one that served serves again.

        Without a trial they are done with that one.
        """
        if not self.order["trials"]:
            self._carry_out("")
            return
        own, previous = self.found.generation, generations.linked(paths.PREVIOUS)
        try:
            for trial in self.order["trials"]:
                self._serve(trial["number"], own)
                self._carry_out(f"{trial['label']}: ")
        finally:
            self._serve(own, own)
            generations.restore(own, previous)

    def _serve(self, number: int, own: int) -> None:
        """Make this generation the one that serves; its own one for good, any other on trial."""
        if generations.linked(paths.CURRENT) != number:
            self._require_idle()
            progress(f"switching to generation {number}")
            beside = None if number == own else own
            switch.held(number, self.order["deadline_s"], trial_beside=beside)
        self.found = server.find()

    def _carry_out(self, prefix: str) -> None:
        steps = self._steps()
        for number, (asked, step) in enumerate(steps, start=1):
            name = prefix + asked["name"]
            if time.monotonic() >= self.ends:
                self.not_run.append(name)
                continue
            self._require_idle()
            progress(f"{number} of {len(steps)}: {name}")
            began = time.monotonic()
            measured = step(f"{self.order['id']}-{len(self.rows)}")
            took = round(time.monotonic() - began, 1)
            self.rows.append({"name": name, "asked": asked, "took_s": took, **measured})
            progress(f"{name}: {describe(measured)}")

    def _steps(self) -> list[tuple[dict[str, Any], Callable[[str], Row]]]:
        by_name: dict[str, Callable[[dict[str, Any], str], Row]] = {
            "late short question": self._late_short,
            "evicted document": self._evicted,
            "evicted document, restart": functools.partial(self._evicted, restart=True),
        }
        soaks = [self.order["soak"]] if self.order["soak"] else []
        profiles = [self.order["profile"]] if self.order["profile"] else []
        return [
            *((asked, functools.partial(self._profile, asked)) for asked in profiles),
            *((asked, functools.partial(self._soak, asked)) for asked in soaks),
            *((asked, functools.partial(self._run, asked)) for asked in self.order["runs"]),
            *(
                (asked, functools.partial(by_name[asked["name"]], asked))
                for asked in self.order["scenarios"]
            ),
        ]

    def _run(self, asked: dict[str, Any], salt: str) -> Row:
        run = benchmark.Run(**asked | {"tokens": tuple(asked["tokens"])})
        rows = benchmark.texts(run, salt, self.ratios)
        return benchmark.measure(self.found, run, rows, self.work, self.ends, progress)

    def _soak(self, asked: dict[str, Any], salt: str) -> Row:
        run = {key: value for key, value in asked.items() if key != "seconds"}

        def one(number: int) -> Row:
            self._require_idle()
            return self._run(run, f"{salt}-{number}")

        return soak.carry_out(asked["seconds"], one, progress)

    def _profile(self, asked: dict[str, Any], salt: str) -> Row:
        folder = Path(asked["folder"])
        told = {key: value for key, value in asked.items() if key != "folder"}
        run = benchmark.Run(**told | {"tokens": tuple(asked["tokens"])})
        texts = [str(row["prompt"]) for row in benchmark.texts(run, salt, self.ratios)]
        found: Row = stepprofile.carry_out(self.found, texts, run.answer, folder)
        return found

    def _require_idle(self) -> None:
        """A user who has come meanwhile goes first."""
        idle.require(self.order["wait_s"], progress, "stopped measuring", ADVICE)

    def _late_short(self, asked: dict[str, Any], salt: str) -> Row:
        return scenarios.late_short(self._asked(asked, salt))

    def _evicted(self, asked: dict[str, Any], salt: str, restart: bool = False) -> Row:
        told = self._asked(asked, salt)
        texts = scenarios.documents(told)
        sources = scenarios.evicted(told, texts, asked["offloads"])
        if restart:
            progress("restarting the server, to ask for the documents once more")
            switch.held(self.found.generation, self.order["deadline_s"])
            self.found = server.find()
            again = scenarios.Sources()
            told = self._asked(asked, salt)
            scenarios.read_again(told, texts, again, "computed")
            for source, values in again.found.items():
                sources.found[f"restarted_{source}"] = values
        return scenarios.row_of(sources, sum(map(len, sources.found.values())))

    def _asked(self, asked: dict[str, Any], salt: str) -> scenarios.Asked:
        return scenarios.Asked(self.found, salt, self.ratios, asked["tokens"], asked["pool"])


_SAID = {
    "answer_tokens_per_s": "{:.1f} tokens/s",
    "first_token_p50_ms": "first token after {:.0f} ms",
}


def describe(measured: Row) -> str:
    """A step's figures in one line."""
    told = measured["figures"]
    parts = [text.format(told[key]) for key, text in _SAID.items() if key in told]
    parts += [
        f"{key.removesuffix('_first_token_ms').replace('_', ' ')} {value:.0f} ms"
        for key, value in told.items()
        if key.endswith("_first_token_ms")
    ]
    if measured["failed"]:
        parts.append(f"{measured['failed']} requests failed: {measured['error']}")
    parts += [measured["note"]] if measured.get("note") else []
    return ", ".join(parts) or "nothing was measured"
