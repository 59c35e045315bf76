# SPDX-License-Identifier: Apache-2.0
"""Where one series stands: its newest night against the level that is accepted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from roofreport.gate import change_points, fence, pace
from roofreport.gate.fence import Fence
from roofreport.gate.pace import Follows
from roofreport.io.contract import Metric

Floats = NDArray[np.float64]

LONGEST = 120  # nights in which change points are looked for


@dataclass(frozen=True)
class History:
    """One series, a row a process, oldest first. Above is worse: of rates, the negative logarithm."""

    nights: NDArray[np.int64]  # ascending, from 0: the night of each process
    logs: Floats  # nan: not measured
    paces: Floats  # [process, column]: logarithms of the rates of roofs; nan: none
    accepted: int = 0  # the first night that counts


@dataclass(frozen=True)
class Standing:
    """In logarithms of the metric, at one pace of the machine; above is worse."""

    fence: Fence
    newest: float  # the newest night
    level: float  # of the newest segment
    accepted: float  # the level that it is held against
    since: int | None  # the first night of a level that is worse; None: change points show none
    better_since: int | None  # the first night of the newest segment, where it is better than all before
    before_better: float  # the level before that one
    follows: Follows

    @property
    def excess(self) -> float:
        return self.newest - self.fence.center


def _by_night(history: History) -> tuple[Floats, Follows]:
    """A median a night, nan where nothing was measured."""
    count = int(history.nights[-1]) + 1
    before = history.nights < count - 1
    follows = pace.fit(history.logs[before], history.paces[before])
    values = pace.steadied(history.logs, history.paces, follows)
    medians = np.full(count, np.nan)
    known = np.isfinite(values)
    values, places = values[known], history.nights[known]
    starts = np.searchsorted(places, np.arange(count + 1))
    for night, (start, end) in enumerate(pairwise(starts)):
        if end > start:
            medians[night] = np.median(values[start:end])
    return medians, follows


@dataclass(frozen=True)
class _Levels:
    reference: float
    at_reference: list[int]  # the values that are at the accepted level
    current: float
    since: int | None
    better_since: int | None
    before_better: float


def _levels(values: Floats, practical: float) -> _Levels:
    """Segments one after another: a better level becomes the reference, a worse one is an alarm while it lasts."""
    edges = [0, *change_points.find(values.tolist()), len(values)]
    reference = current = before_better = float(np.median(values[: edges[1]]))
    inside = list(range(edges[1]))
    since, better_since = None, None
    for start, end in pairwise(edges[1:]):
        previous, current = current, float(np.median(values[start:end]))
        here = list(range(start, end))
        better_since = None
        if reference - current > practical:
            reference, inside, since = current, here, None
            better_since, before_better = start, previous
        elif current - reference > practical:
            since = start if since is None else since
        else:
            inside, since = inside + here, None
    return _Levels(reference, inside, current, since, better_since, before_better)


def _reference_nights(values: Floats, levels: _Levels, older: Floats) -> Floats:
    """Those at the accepted level, without the newest night. Where they are few, what was before tells how nights
    scatter, though not where."""
    good = values[[index for index in levels.at_reference if index < len(values) - 1]]
    missing = fence.NIGHTS - len(good)
    if missing <= 0 or not len(good):
        return good
    before = values[: levels.at_reference[0]]
    if len(before) < fence.FEWEST_NIGHTS:
        before = older[-fence.NIGHTS :]
    if len(before) < fence.FEWEST_NIGHTS:
        return good
    moved = before - np.median(before) + np.median(good)
    return np.concatenate([moved[-missing:], good])


def of(history: History, metric: Metric) -> Standing | None:
    """None where the newest night measured nothing, or too few are there to be held against."""
    medians, follows = _by_night(history)
    if not np.isfinite(medians[-1]):
        return None
    measured = np.flatnonzero(np.isfinite(medians))
    first = int(np.searchsorted(measured, max(history.accepted, 0)))
    places = measured[first:][-LONGEST:]
    values = medians[places]
    if len(values) < 2:
        return None
    levels = _levels(values, math.log1p(metric.practical))
    limits = fence.around(_reference_nights(values, levels, medians[measured[:first]]), metric)
    if limits is None:
        return None

    def night(index: int | None) -> int | None:
        return None if index is None else int(places[index])

    return Standing(
        limits,
        float(values[-1]),
        levels.current,
        levels.reference,
        night(levels.since),
        night(levels.better_since),
        levels.before_better,
        follows,
    )
