# SPDX-License-Identifier: Apache-2.0
"""The state of one series: the fence around its accepted nightly runs, its change points, and the pace of its
machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofreport import units
from roofreport.io.contract import Metric

Floats = NDArray[np.float64]

FENCE_NIGHTS = 20  # newest accepted runs that a fence is made of
FEWEST_NIGHTS = 5  # with fewer, the series lacks a fence
FAR = 4.0  # deviations: beyond these a finding is reported without confirmation
NEAR = 2.5  # deviations: these justify some fresh processes
FAR_FLOOR = 0.05
NEAR_FLOOR = 0.03
# Standard deviation of a normal sample over its median absolute deviation.
MAD_SCALE = 1.4826


@dataclass(frozen=True)
class Fence:
    """In logarithms; above is worse."""

    center: float
    near: float  # widths
    far: float


def too_young(nights: int) -> str:
    """When a series with so many nights that count will be judged; empty for one that is."""
    needed = FEWEST_NIGHTS + 1
    missing = units.counted(needed - nights, "more night")
    return "" if nights >= needed else f"{nights} of {needed} nights; the gate begins to judge in {missing}"


def deviation(values: Floats) -> float:
    """Robust: half of the values may be arbitrary."""
    return MAD_SCALE * float(np.median(np.abs(values - np.median(values))))


def least_width(metric: Metric, floor: float) -> float:
    """The least width of a fence, in logarithms."""
    return math.log1p(max(metric.practical, floor if metric.noisy else 0.0))


def fence_around(values: Sequence[float] | Floats, metric: Metric) -> Fence | None:
    """The fence from accepted nightly runs, the newest last; None where they are too few."""
    newest = np.asarray(values, dtype=np.float64)[-FENCE_NIGHTS:]
    if len(newest) < FEWEST_NIGHTS:
        return None
    center = float(np.median(newest))
    if not metric.noisy:  # the same work gives the same figure
        width = least_width(metric, 0.0)
        return Fence(center, width, width)
    spread = deviation(newest)
    near, far = (
        max(factor * spread, least_width(metric, floor)) for factor, floor in ((NEAR, NEAR_FLOOR), (FAR, FAR_FLOOR))
    )
    return Fence(center, near, far)


# Where a series moved to another level: slow drifts that a single nightly run does not reveal.

SHORTEST_LEVEL = 3  # values of a segment
# The least gain of a change point, in variances of a value: the sum of squares that two levels explain and one does
# not. Chosen in the simulated year.
PENALTY = 24.0
# Most chance of a rank test that both sides of a change point are one level.
MOST_CHANCE = 1e-3
# Deviations from its neighbors' median at which a value is clipped: trouble in one nightly run is not a level.
FARTHEST = 2.5
NEIGHBORS = 2  # to each side


def _deviation(values: Floats) -> float:
    """Computed from differences of adjacent values, so that the levels themselves do not count."""
    return float(MAD_SCALE * np.median(np.abs(np.diff(values))) / np.sqrt(2))


def _without_outliers(values: Floats) -> Floats:
    width = 2 * NEIGHBORS + 1
    windows = np.lib.stride_tricks.sliding_window_view(values, width)
    inner = np.median(windows, axis=1)
    # At both ends the last whole window serves: a level needs more than two nightly runs.
    middle = np.concatenate([np.repeat(inner[0], NEIGHBORS), inner, np.repeat(inner[-1], NEIGHBORS)])
    return np.asarray(np.clip(values, middle - FARTHEST, middle + FARTHEST))


def steady(values: Floats, clipped: bool = True) -> Floats | None:
    """In deviations, around 0; None where values are too few, or all the same."""
    if len(values) < 2 * SHORTEST_LEVEL:
        return None
    deviation = _deviation(values) or 1e-3 * float(np.std(values))
    if deviation == 0 or not np.isfinite(deviation):
        return None
    standard = (values - np.median(values)) / deviation
    return _without_outliers(standard) if clipped else np.asarray(standard)


def segments(values: Floats, penalty: float, kernel: str = "linear") -> list[int]:
    """Where the segments of the cheapest division begin; each costs `penalty` in addition to its values."""
    # It takes a second to import.
    from ruptures.detection import KernelCPD  # type: ignore[import-untyped]

    search = KernelCPD(kernel=kernel, min_size=SHORTEST_LEVEL).fit(values[:, None])
    return [int(position) for position in search.predict(pen=penalty)[:-1]]


def change_points(values: Sequence[float]) -> list[int]:
    """The positions at which a new level begins, in ascending order. `values` are finite, of one scatter at every
    level: logarithms, where a figure scatters by a share of itself."""
    measured = np.asarray(values, dtype=np.float64)
    standard = steady(measured)
    return [] if standard is None else _confirmed(measured, segments(standard, PENALTY))


def _confirmed(values: Floats, positions: list[int]) -> list[int]:
    """Without those whose levels on both sides overlap as chance allows, the least certain one first: on a pool of
    hosts, or a host in two states, the cheapest division separates nights that happen to be slow one after another.
    """
    # It takes half a second to import.
    from scipy.stats import mannwhitneyu

    def chance(one: Floats, other: Floats) -> float:
        if one.max() < other.min() or other.max() < one.min():
            return 0.0  # however few
        return float(mannwhitneyu(one, other).pvalue)

    edges = [0, *positions, len(values)]
    while len(edges) > 2:
        levels = [values[first:last] for first, last in pairwise(edges)]
        chances = [chance(*both) for both in pairwise(levels)]
        if max(chances) <= MOST_CHANCE:
            break
        del edges[1 + chances.index(max(chances))]
    return edges[1:-1]


# How far a case follows the pace of its machine, and its times as they were had the pace stayed the same.
#
# A shared machine's memory is now slow, now fast. The roofs that a run measures next to its cases show the state: a
# stream follows them in full, a product of matrices hardly. How far a case does is read from its own history, as the
# share of the roof's moves that leaves its times the least scattered.

SHARES = np.linspace(0.0, 1.0, 11)
FEWEST_PROCESSES = 10  # processes that a share is estimated from
MOST_PROCESSES = 160
LEAST_MOVE = 0.01  # of a pace, in its logarithm: one that stays where it is says nothing


class Follows(NamedTuple):
    column: int  # of the paces
    share: float  # of their moves: 0 not at all, 1 in full
    level: float  # of the paces: their median, which times are taken to


NOT_AT_ALL = Follows(0, 0.0, 0.0)


def fit_pace(logs: Floats, paces: Floats) -> Follows:
    """`logs` of times, `paces` [process, column]: logarithms of roofs' rates, nan where none was measured."""
    measured = np.flatnonzero(np.isfinite(logs))[-MOST_PROCESSES:]
    logs, paces = logs[measured], paces[measured]
    best, least = NOT_AT_ALL, np.inf
    for column in range(paces.shape[1]):
        both = np.isfinite(paces[:, column])
        if both.sum() < max(FEWEST_PROCESSES, 0.8 * len(logs)) or np.ptp(paces[both, column]) < LEAST_MOVE:
            continue
        steadied = logs[both, None] + paces[both, column, None] * SHARES
        scatter = MAD_SCALE * np.median(np.abs(steadied - np.median(steadied, axis=0)), axis=0)
        chosen = int(np.argmin(scatter))
        if scatter[chosen] < least:
            level = float(np.median(paces[both, column]))
            best, least = Follows(column, float(SHARES[chosen]), level), float(scatter[chosen])
    return best


def nearest(rates: Floats, given: NDArray[np.bool_]) -> Floats:
    """[process, case]: that of the nearest case of the same process among those that are `given`, as a roof of memory
    is, in the order that they ran in."""
    found = np.full_like(rates, np.nan)
    places = np.arange(rates.shape[1])
    for process, row in enumerate(rates):
        known = np.flatnonzero(np.isfinite(row) & given)
        if len(known):
            right = np.clip(np.searchsorted(known, places), 0, len(known) - 1)
            left = np.maximum(right - 1, 0)
            nearer = np.where(np.abs(known[left] - places) <= np.abs(known[right] - places), left, right)
            found[process] = row[known[nearer]]
    return found


def steadied(logs: Floats, paces: Floats, follows: Follows) -> Floats:
    """nan where the pace of a case that follows it is unknown."""
    if follows.share == 0:
        return logs
    return np.asarray(logs + follows.share * (paces[:, follows.column] - follows.level))


LONGEST = 120  # nightly runs in which change points are looked for


@dataclass(frozen=True)
class History:
    """One series, one row per process, oldest first. Above is worse: of rates, the negative logarithm."""

    nights: NDArray[np.int64]  # ascending, from 0: the nightly run of each process
    logs: Floats  # nan: not measured
    paces: Floats  # [process, column]: logarithms of the rates of roofs; nan: none
    accepted: int = 0  # the first nightly run that counts


@dataclass(frozen=True)
class Levels:
    """In logarithms of the metric; above is worse. A nightly run has the number that it has in History."""

    accepted: float  # the level that the newest one is compared with
    at_accepted: list[int]  # the places of the values that are at it
    level: float  # of the newest segment
    since: int | None  # the first nightly run of a level that is worse; None: change points show none
    better_since: int | None  # the first nightly run of the newest segment, where it is better than all before
    before_better: float  # the level before that one


@dataclass(frozen=True)
class SeriesState(Levels):
    """At one pace of the machine."""

    fence: Fence
    newest: float  # the newest nightly run
    follows: Follows

    @property
    def excess(self) -> float:
        return self.newest - self.fence.center


def by_nightly_run(history: History) -> tuple[Floats, Follows]:
    """The median of each nightly run, nan where nothing was measured."""
    count = int(history.nights[-1]) + 1
    before = history.nights < count - 1
    follows = fit_pace(history.logs[before], history.paces[before])
    values = steadied(history.logs, history.paces, follows)
    medians = np.full(count, np.nan)
    known = np.isfinite(values)
    values, places = values[known], history.nights[known]
    starts = np.searchsorted(places, np.arange(count + 1))
    for night, (start, end) in enumerate(pairwise(starts)):
        if end > start:
            medians[night] = np.median(values[start:end])
    return medians, follows


def counting(medians: Floats) -> NDArray[np.int64]:
    """The nightly runs with a figure that counts: a series is judged by them, and old enough if there are six."""
    return np.flatnonzero(np.isfinite(medians))


def _levels(values: Floats, numbers: NDArray[np.int64], practical: float) -> Levels:
    """Segments one after another: a better level becomes the accepted one, a worse one is an alarm while it lasts.
    `numbers`: of the values' nightly runs.
    """
    edges = [0, *change_points(values.tolist()), len(values)]
    accepted = level = before_better = float(np.median(values[: edges[1]]))
    inside = list(range(edges[1]))
    since, better_since = None, None
    for start, end in pairwise(edges[1:]):
        previous, level = level, float(np.median(values[start:end]))
        here = list(range(start, end))
        better_since = None
        if accepted - level > practical:
            accepted, inside, since = level, here, None
            better_since, before_better = int(numbers[start]), previous
        elif level - accepted > practical:
            since = int(numbers[start]) if since is None else since
        else:
            inside, since = inside + here, None
    return Levels(accepted, inside, level, since, better_since, before_better)


def _reference_values(values: Floats, levels: Levels, older: Floats) -> Floats:
    """The runs at the accepted level, without the newest one. Where they are few, earlier runs supply the scatter, but
    not the center.
    """
    good = values[[index for index in levels.at_accepted if index < len(values) - 1]]
    missing = FENCE_NIGHTS - len(good)
    if missing <= 0 or not len(good):
        return good
    before = values[: levels.at_accepted[0]]
    if len(before) < FEWEST_NIGHTS:
        before = older[-FENCE_NIGHTS:]
    if len(before) < FEWEST_NIGHTS:
        return good
    moved = before - np.median(before) + np.median(good)
    return np.concatenate([moved[-missing:], good])


def state_of(history: History, metric: Metric) -> SeriesState | None:
    """None if the newest nightly run measured nothing, or too few precede it."""
    medians, follows = by_nightly_run(history)
    if not np.isfinite(medians[-1]):
        return None
    measured = counting(medians)
    first = int(np.searchsorted(measured, max(history.accepted, 0)))
    places = measured[first:][-LONGEST:]
    values = medians[places]
    if len(values) < 2:
        return None
    levels = _levels(values, places, math.log1p(metric.practical))
    fence = fence_around(_reference_values(values, levels, medians[measured[:first]]), metric)
    return SeriesState(**vars(levels), fence=fence, newest=float(values[-1]), follows=follows) if fence else None
