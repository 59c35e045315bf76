# SPDX-License-Identifier: Apache-2.0
"""How time grows along an axis, against what its family expects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from roofreport.io import case_name
from roofreport.io.contract import Contract
from roofreport.io.result import Case, State

FEWEST_POINTS = 3
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Fit:
    """time = factor · size^exponent, with the exponent's 95 % interval."""

    factor: float
    exponent: float
    low: float
    high: float


@dataclass(frozen=True)
class Series:
    """Cases that differ along one axis alone."""

    family: str
    axis: str
    rest: str  # what the other axes are
    sizes: tuple[float, ...]
    seconds: tuple[float, ...]
    fit: Fit
    expected: float | None = None

    @property
    def overhead_below(self) -> float | None:
        """Up to this size the time grows less than half as fast as expected; None: nowhere, or nothing is expected."""
        found = None
        if self.expected is None:
            return None
        points = list(zip(self.sizes, self.seconds, strict=True))
        for (size, time), (next_size, next_time) in pairwise(points):
            if math.log(next_time / time) / math.log(next_size / size) >= self.expected / 2:
                break
            found = size
        return found


def fit_power(sizes: Sequence[float], seconds: Sequence[float]) -> Fit:
    """Least squares on logarithms. At least three distinct sizes."""
    # SciPy takes most of a second to import: only what needs it pays.
    from scipy import stats

    line = stats.linregress([math.log(size) for size in sizes], [math.log(time) for time in seconds])
    half = float(stats.t.ppf((1 + _CONFIDENCE) / 2, len(sizes) - 2)) * float(line.stderr)
    slope = float(line.slope)
    return Fit(math.exp(float(line.intercept)), slope, slope - half, slope + half)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def _sizes(case: Case, contract: Contract, wanted: Sequence[str]) -> dict[str, float]:
    """The sizes of a case along the axes that are `wanted`, or else along those with an expected growth."""
    family = case_name.family(case.name)
    known = contract.families.get(family)
    values = {axis.name: axis.default for axis in known.axes if axis.default is not None} if known else {}
    values |= case_name.axes(case.name)
    if wanted:
        chosen = [axis for axis in values if {axis, f"{family}.{axis}"} & set(wanted)]
    else:
        chosen = [axis for axis in known.growth if axis in values] if known else []
    return {axis: size for axis in chosen if (size := _number(values[axis])) is not None}


def find(cases: Sequence[Case], contract: Contract, wanted: Sequence[str] = ()) -> list[Series]:
    """One entry for each axis with an expected growth, or with a name in `wanted` (axis or family.axis), and each
    setting of the other axes that has enough points. Each case is there once, its repetitions merged."""
    groups: dict[tuple[str, str, str], dict[float, float]] = {}
    for case in cases:
        if case.state is not State.MEASURED:
            continue
        for axis, size in _sizes(case, contract, wanted).items():
            family, _, rest = case_name.without_axis(case.name, axis).partition("/")
            groups.setdefault((family, axis, rest), {})[size] = case.seconds
    found = []
    for (family, axis, rest), points in groups.items():
        if len(points) < FEWEST_POINTS:
            continue
        sizes, seconds = zip(*sorted(points.items()), strict=True)
        known = contract.families.get(family)
        expected = known.growth.get(axis) if known else None
        found.append(Series(family, axis, rest, sizes, seconds, fit_power(sizes, seconds), expected))
    return found
