# SPDX-License-Identifier: Apache-2.0
"""What every page knows: machines, toolchains, runs, cases and series, each by its place in a list."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Generic, TypeVar

from roofreport.history.records import Machine, Reading, Run, Series, Toolchain
from roofreport.io import case_name
from roofreport.io.contract import Better, Contract
from roofreport.render.chart import SHAPES
from roofreport.site.data.script import words

Key = TypeVar("Key", bound=Hashable)

_TOKEN = re.compile(r"[0-9A-Za-z]{8,64}")
_TOKEN_LENGTH = 16
_MOST_FACTS = 60


def token(text: str) -> str:
    """`text`, a hash, fit for a file's name and a link, whatever a foreign store has in its place."""
    known = text if _TOKEN.fullmatch(text) else sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return known[:_TOKEN_LENGTH]


@dataclass
class Numbered(Generic[Key]):
    """Things in the order in which they first came."""

    places: dict[Key, int] = field(default_factory=dict)

    def place(self, thing: Key) -> int:
        return self.places.setdefault(thing, len(self.places))


def facts(known: Mapping[str, str]) -> list[list[str]]:
    return [[words(key, 60), words(value)] for key, value in list(known.items())[:_MOST_FACTS]]


class Catalogue:
    """`histories`: what the store has of each metric."""

    def __init__(self, histories: Mapping[str, Mapping[Series, list[Reading]]], contract: Contract) -> None:
        self._contract = contract
        self._machines: Numbered[Machine] = Numbered()
        self._toolchains: Numbered[Toolchain] = Numbered()
        self._cases: Numbered[str] = Numbered()
        self.series = [series for history in histories.values() for series in history]
        rows = [row for history in histories.values() for row in history.values()]
        runs = {reading.run.digest: reading.run for row in rows for reading in row}
        self.runs: list[Run] = sorted(runs.values(), key=lambda run: (run.started, run.id))
        self._run_places = {run.digest: place for place, run in enumerate(self.runs)}
        for series in self.series:
            self._cases.place(series.case)
            self._machines.place(series.machine)
            self._toolchains.place(series.toolchain)

    def run(self, run: Run) -> int | None:
        """Its place; None for a run without any reading."""
        return self._run_places.get(run.digest)

    def case(self, name: str) -> int:
        return self._cases.place(name)

    def machine(self, machine: Machine) -> int:
        return self._machines.place(machine)

    def metrics(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Units and directions; of a counter that no contract knows, nothing."""
        found = {}
        for name in names:
            metric = self._contract.metric(name)
            if metric is not None:
                better = "" if metric.better is Better.NEITHER else metric.better.value
                found[words(name, 100)] = {"unit": metric.unit, "better": better, "practical": metric.practical}
        return found

    def data(self, counters: Iterable[str]) -> dict[str, Any]:
        chosen = dict.fromkeys(series.metric for series in self.series)
        return {
            "shapes": SHAPES,
            "machines": [[token(one.id), words(one.label), facts(one.facts)] for one in self._machines.places],
            "toolchains": [[token(one.id), words(one.label), facts(one.facts)] for one in self._toolchains.places],
            "metrics": self.metrics([*chosen, *counters]),
            "chosen": [words(name, 100) for name in chosen],
            "cases": [words(name) for name in self._cases.places],
            "families": [words(case_name.family(name), 100) for name in self._cases.places],
            "runs": [self._run(run) for run in self.runs],
            "series": [
                [token(one.key), self.case(one.case), words(one.metric, 100), *self._whose(one)] for one in self.series
            ],
        }

    def _whose(self, one: Series | Run) -> tuple[int, int]:
        return self._machines.place(one.machine), self._toolchains.place(one.toolchain)

    def _run(self, run: Run) -> list[Any]:
        started = int(run.started.timestamp() * 1000)
        return [token(run.digest), started, words(run.revision, 60), *self._whose(run)]
