# SPDX-License-Identifier: Apache-2.0
"""A synthetic year through the gate, night by night: what it says of planted slowdowns, and of nights without one.

The gate sees what a nightly job would have: times, the roofs beside them, and which nights somebody accepted. A
suspect's second run is drawn from the same noise as any process and judged by the rule of A B B A; whether something
was planted reaches it as a factor on its times alone. Every alarm is accepted on the spot, be it true or false.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from roofreport.gate import pace, standing
from roofreport.gate.standing import History, Standing
from roofreport.io.contract import TIME
from roofreport.stats.error_rates import window_verdicts
from roofreport.stats.verdict import Verdict
from roofreport.studies import year as years
from roofreport.studies.year import Year

Floats = NDArray[np.float64]

PLANTS = (0.08, 0.03)
QUIET = 20  # nights after the begin of a series, and before its end, in which nothing is planted
APART = 30  # nights between two plants
LATEST = 14  # nights after a plant in which it counts as found
RERUN_PAIRS = 30
RERUN_SECONDS = 3.0  # of a process that runs a suspect alone


@dataclass(frozen=True)
class Plant:
    night: int
    size: float


@dataclass
class Tally:
    """What became of the plants of one kind of gate, and of everything else."""

    false_alarms: int = 0
    delays: dict[float, list[int | None]] = field(default_factory=lambda: {size: [] for size in PLANTS})  # None: never
    reruns: int = 0

    def found(self, size: float, within: int) -> float:
        delays = self.delays[size]
        return sum(delay is not None and delay <= within for delay in delays) / max(1, len(delays))


def planted(random: np.random.Generator, series: int, nights: int, begins: Sequence[int]) -> list[list[Plant]]:
    """One plant of each size for every series, away from the begin and the end of what is one series."""
    edges = [*begins, nights]
    allowed = np.concatenate([np.arange(begin + QUIET, end - QUIET) for begin, end in pairwise(edges)])
    found = []
    for _ in range(series):
        while True:
            chosen = random.choice(allowed, len(PLANTS), replace=False)
            if np.min(np.diff(np.sort(chosen))) >= APART:
                break
        found.append(
            sorted((Plant(int(n), size) for n, size in zip(chosen, PLANTS, strict=True)), key=lambda p: p.night)
        )
    return found


def rerun(random: np.random.Generator, sensitivity: float, slowdown: float, drift: float, lean: float) -> Verdict:
    """A B B A against the last good build, `slowdown` being what is planted since."""
    both = 2 * RERUN_PAIRS
    times, _ = years.processes(random, np.array([sensitivity]), both, RERUN_SECONDS, drift, lean)
    pairs = times.reshape(RERUN_PAIRS, 2)
    pairs[1::2] = pairs[1::2, ::-1]
    verdicts, _ = window_verdicts(pairs[:, :1], pairs[:, 1:] + slowdown, True)
    return verdicts[0]


# Of (what stands, the verdict of a second run): whether it is an alarm.
Rule = Callable[[Standing, Callable[[], Verdict]], bool]


def gate_rule(standing: Standing, again: Callable[[], Verdict]) -> bool:
    if standing.excess > standing.fence.near or standing.since is not None:
        return again() is Verdict.SLOWER
    return False


def _gated_series(
    year: Year,
    index: int,
    beside: Floats,
    plants: Sequence[Plant],
    random: np.random.Generator,
    rule: Rule,
    tally: Tally,
) -> None:
    nights, a_night, _ = year.log_times.shape
    times = year.log_times[:, :, index].copy()
    for plant in plants:
        times[plant.night :] += np.log1p(plant.size)
    own = year.log_rates[:, :, index]
    open_plants = list(plants)
    delays: dict[float, int | None] = {plant.size: None for plant in plants}
    for begin, end in ((0, year.driver_night), (year.driver_night, nights)):
        accepted = begin
        good = 0.0  # planted in the build that a second run is held against
        for night in range(begin + 1, end):
            here = slice(begin, night + 1)
            if np.isnan(times[night]).all():
                continue
            there = sum(np.log1p(plant.size) for plant in plants if plant.night <= night)
            if night == begin + 1:
                good = there
            history = History(
                np.repeat(np.arange(night + 1 - begin), a_night),
                times[here].ravel(),
                np.column_stack([own[here].ravel(), beside[here, :, index].ravel()]),
                accepted - begin,
            )
            stands = standing.of(history, TIME)
            if stands is None:
                continue

            def again(there: float = there, good: float = good, night: int = night) -> Verdict:
                tally.reruns += 1
                sensitivity = float(year.sensitivities[index])
                return rerun(random, sensitivity, there - good, float(year.drift[night]), float(year.lean[night]))

            if not rule(stands, again):
                continue
            due = [plant for plant in open_plants if plant.night <= night]
            if due:
                for plant in due:
                    delays[plant.size] = night - plant.night
                    open_plants.remove(plant)
            else:
                tally.false_alarms += 1
            accepted = night if stands.since is None else min(night, stands.since + begin)
            good = there
    for size, delay in delays.items():
        tally.delays[size].append(delay)


def gated(year: Year, plants: Sequence[Sequence[Plant]], random: np.random.Generator, rule: Rule = gate_rule) -> Tally:
    tally = Tally()
    flat = year.log_rates.reshape(-1, year.log_rates.shape[2])
    beside = pace.beside(flat, year.follows_memory).reshape(year.log_rates.shape)
    for index in range(year.log_times.shape[2]):
        _gated_series(year, index, beside, plants[index], random, rule, tally)
    return tally


def plain(year: Year, plants: Sequence[Sequence[Plant]], limit: float) -> Tally:
    """A night against the one before it: an alarm above a fixed ratio."""
    tally = Tally()
    nights = np.nanmedian(year.log_times, axis=1)
    for index, own in enumerate(plants):
        values = nights[:, index].copy()
        for plant in own:
            values[plant.night :] += np.log1p(plant.size)
        delays: dict[float, int | None] = {plant.size: None for plant in own}
        measured = np.flatnonzero(np.isfinite(values))
        for before, night in pairwise(measured):
            if before < year.driver_night <= night or values[night] - values[before] <= np.log1p(limit):
                continue
            due = [plant for plant in own if before < plant.night <= night]
            for plant in due:
                delays[plant.size] = int(night) - plant.night
            tally.false_alarms += not due
        for size, delay in delays.items():
            tally.delays[size].append(delay)
    return tally
