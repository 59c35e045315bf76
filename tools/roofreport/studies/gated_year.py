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
from roofreport.gate.again import PROCESSES, repeat_limit
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


@dataclass(frozen=True)
class Evening:
    """What a second run of one series would meet on one night."""

    random: np.random.Generator
    sensitivity: float
    level: float  # of its times beside their noise: what is planted, and what the driver brought
    slowdown: float  # planted since the last good build
    drift: float
    lean: float

    def abba(self) -> Verdict:
        """Against the last good build, by the rule of A B B A."""
        one = np.array([self.sensitivity])
        times, _ = years.processes(self.random, one, 2 * RERUN_PAIRS, RERUN_SECONDS, self.drift, self.lean)
        pairs = times.reshape(RERUN_PAIRS, 2)
        pairs[1::2] = pairs[1::2, ::-1]
        verdicts, _ = window_verdicts(pairs[:, :1], pairs[:, 1:] + self.slowdown, True)
        return verdicts[0]

    def repeated(self, stands: Standing) -> float:
        """The median of some processes of the present build alone, at the pace of the series."""
        one = np.array([self.sensitivity])
        times, rates = years.processes(self.random, one, PROCESSES, RERUN_SECONDS, self.drift, self.lean)
        values = times[:, 0] + self.level
        if stands.follows.column == 0 or self.sensitivity >= years.MEMORY_BOUND:
            values = values + stands.follows.share * (rates[:, 0] - stands.follows.level)
        return float(np.median(values))


# Whether what stands is an alarm.
Rule = Callable[[Standing, Evening], bool]


def _is_suspect(stands: Standing) -> bool:
    return stands.excess > stands.fence.near or stands.since is not None


def with_base(stands: Standing, evening: Evening) -> bool:
    return _is_suspect(stands) and evening.abba() is Verdict.SLOWER


def by_repeating(stands: Standing, evening: Evening) -> bool:
    return _is_suspect(stands) and evening.repeated(stands) > repeat_limit(stands)


def without(stands: Standing, evening: Evening) -> bool:
    return stands.excess > stands.fence.far or stands.since is not None


RULES: dict[str, Rule] = {
    "gate, A B B A against the last good build": with_base,
    "gate, five more processes of the build": by_repeating,
    "gate, no second run": without,
}


class _Alarms:
    """Alarms of one series as they come, put down to what was planted before them. Nights are counted that measured
    the series: nobody finds anything on another."""

    def __init__(self, plants: Sequence[Plant], measured: NDArray[np.bool_]) -> None:
        self._open = list(plants)
        self._measured = measured
        self.delays: dict[float, int | None] = {plant.size: None for plant in plants}
        self.false = 0

    def sound(self, night: int, since: int = 0) -> None:
        """`since`: plants before this night are no reason."""
        due = [plant for plant in self._open if since <= plant.night <= night]
        self.false += not due
        for plant in due:
            self.delays[plant.size] = int(np.sum(self._measured[plant.night : night]))
            self._open.remove(plant)

    def count(self, tally: Tally) -> None:
        tally.false_alarms += self.false
        for size, delay in self.delays.items():
            tally.delays[size].append(delay)


def _gated_series(
    year: Year, index: int, paces: Floats, plants: Sequence[Plant], random: np.random.Generator, rule: Rule
) -> _Alarms:
    """`paces`: [night, process, column]."""
    nights, a_night, _ = year.log_times.shape
    planted_by = np.array([sum(np.log1p(p.size) for p in plants if p.night <= night) for night in range(nights)])
    times = year.log_times[:, :, index] + planted_by[:, None]
    alarms = _Alarms(plants, np.isfinite(times).any(axis=1))
    for begin, end in ((0, year.driver_night), (year.driver_night, nights)):
        accepted, good = begin, begin  # the first night that counts; the night of the last good build
        driver = year.driver_shift[index] if begin else 0.0
        for night in range(begin + 1, end):
            if np.isnan(times[night]).all():
                continue
            here = slice(begin, night + 1)
            history = History(
                np.repeat(np.arange(night + 1 - begin), a_night),
                times[here].ravel(),
                paces[here].reshape(-1, paces.shape[2]),
                accepted - begin,
            )
            stands = standing.of(history, TIME)
            if stands is None:
                continue
            level, slowdown = planted_by[night], planted_by[night] - planted_by[good]
            sensitivity, drift, lean = year.sensitivities[index], year.drift[night], year.lean[night]
            if rule(stands, Evening(random, sensitivity, level + driver, slowdown, drift, lean)):
                alarms.sound(night)
                accepted, good = night if stands.since is None else stands.since + begin, night
    return alarms


def gated(year: Year, plants: Sequence[Sequence[Plant]], random: np.random.Generator, rule: Rule = with_base) -> Tally:
    tally = Tally()
    flat = year.log_rates.reshape(-1, year.log_rates.shape[2])
    beside = pace.beside(flat, year.follows_memory).reshape(year.log_rates.shape)
    for index in range(year.log_times.shape[2]):
        paces = np.stack([year.log_rates[:, :, index], beside[:, :, index]], axis=2)
        _gated_series(year, index, paces, plants[index], random, rule).count(tally)
    return tally


def plain(year: Year, plants: Sequence[Sequence[Plant]], limit: float) -> Tally:
    """A night against the one before it: an alarm above a fixed ratio."""
    tally = Tally()
    medians = np.nanmedian(year.log_times, axis=1)
    for index, own in enumerate(plants):
        values = medians[:, index].copy()
        for plant in own:
            values[plant.night :] += np.log1p(plant.size)
        alarms = _Alarms(own, np.isfinite(values))
        for before, night in pairwise(np.flatnonzero(np.isfinite(values)).tolist()):
            is_new_series = before < year.driver_night <= night
            if not is_new_series and values[night] - values[before] > np.log1p(limit):
                alarms.sound(night, before + 1)
        alarms.count(tally)
    return tally
