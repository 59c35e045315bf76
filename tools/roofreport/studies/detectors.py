# SPDX-License-Identifier: Apache-2.0
"""Finders of change points at the same rate of false alarms: how many +3 % each finds within two weeks.

Night by night over series at one pace, as the gate has them: a year in which nothing happens, and one with a plant.
Each finder's own setting is varied; the false alarms that it costs stand beside what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofreport.gate import change_points, pace
from roofreport.gate.standing import LONGEST
from roofreport.studies import year as years
from roofreport.studies.gated_year import LATEST, QUIET
from roofreport.terminal import show, tell

Floats = NDArray[np.float64]
Find = Callable[[Floats], list[int]]

PLANT = 0.03


def _ruptures(kernel: str, penalty: float, clipped: bool) -> Find:
    def find(values: Floats) -> list[int]:
        steady = change_points.steady(values, clipped)
        if steady is None:
            return []
        return change_points.segments(steady, penalty, kernel)

    return find


def _otava(p_value: float) -> Find:
    analysis: Any = import_module("otava.analysis")

    def find(values: Floats) -> list[int]:
        found, _ = analysis.compute_change_points(np.exp(values).tolist(), max_pvalue=p_value, min_magnitude=0.01)
        return [int(one.index) for one in found]

    return find


def _rows() -> Iterator[tuple[str, Find]]:
    for penalty in (12.0, 18.0, 24.0):
        yield f"ruptures, L2, outliers clipped, penalty {penalty:g}", _ruptures("linear", penalty, True)
    for penalty in (14.0, 20.0, 30.0):
        yield f"ruptures, L2, penalty {penalty:g}", _ruptures("linear", penalty, False)
    for penalty in (2.0, 3.0, 4.0):
        yield f"ruptures, RBF, penalty {penalty:g}", _ruptures("rbf", penalty, False)
    try:
        for p_value in (1e-2, 1e-3, 1e-4, 1e-5):
            yield f"apache-otava, p {p_value:g}", _otava(p_value)
    except ImportError:
        tell("apache-otava is not installed; it wants an environment of its own")


def _rises(values: Floats, find: Find) -> list[int]:
    """The nights on which the newest level has begun to be worse than the one before; what is found is accepted."""
    found, begin = [], 0
    for night in range(QUIET, len(values)):
        window = values[max(begin, night + 1 - LONGEST) : night + 1]
        if len(window) < QUIET:
            continue
        edges = [0, *find(window), len(window)]
        levels = [float(np.median(window[start:end])) for start, end in pairwise(edges)]
        if len(levels) > 1 and levels[-1] - levels[-2] > 0.01:
            found.append(night)
            begin = night + 1
    return found


def _steady_series(seed: int, series: int, nights: int) -> Floats:
    """[night, series], at one pace, missing nights left out."""
    random = np.random.default_rng(seed)
    made = years.simulated(random, series, nights, 3)
    made.log_times[made.driver_night :] -= made.driver_shift
    flat = made.log_rates.reshape(-1, series)
    beside = pace.beside(flat, made.follows_memory)
    columns = []
    for index in range(series):
        logs = made.log_times[:, :, index].ravel()
        paces = np.column_stack([flat[:, index], beside[:, index]])
        steady = pace.steadied(logs, paces, pace.fit(logs, paces)).reshape(nights, -1)
        columns.append(np.nanmedian(steady, axis=1))
    values = np.column_stack(columns)
    return np.asarray(values[np.isfinite(values).all(axis=1)])


def compare(seed: int, series: int, nights: int) -> int:
    values = _steady_series(seed, series, nights)
    plants = np.random.default_rng(seed).integers(2 * QUIET, len(values) - 2 * LATEST, series)
    show(f"{series} series, {nights} nights, seed {seed}: false alarms a series and year, +3 % in {LATEST} nights")
    for name, find in _rows():
        false = found = 0
        for index in range(series):
            quiet = values[:, index]
            false += len(_rises(quiet, find))
            night = int(plants[index])
            planted = quiet + np.where(np.arange(len(quiet)) >= night, np.log1p(PLANT), 0.0)
            found += any(night <= rise <= night + LATEST for rise in _rises(planted[: night + LATEST + 1], find))
        show(f"{name:<44}{false / series * 365 / nights:>8.3f}{100 * found / series:>8.1f} %")
    return 0
