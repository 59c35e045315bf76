# SPDX-License-Identifier: Apache-2.0
"""Growth of the time along an axis, compared with the expectation of its family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from roofreport.io import case_name
from roofreport.io.contract import Contract
from roofreport.io.reliability import doubt
from roofreport.io.result import Case, State

FEWEST_POINTS = 3
_CONFIDENCE = 0.95
_LONGEST_EXPONENT = 700.0
# Sizes beyond these are invalid. Logarithms of those between them are far enough apart to be distinguished.
_SMALLEST, _LARGEST = 1e-15, 1e30
_CLOSEST = 1e-9  # as a ratio, less 1


@dataclass(frozen=True)
class Fit:
    """time = factor · size^exponent, with the exponent's 95 % interval. The factor is kept as its logarithm."""

    log_factor: float
    exponent: float
    low: float
    high: float

    def seconds(self, size: float) -> float:
        return power(self.log_factor + self.exponent * math.log(size))


@dataclass(frozen=True)
class Series:
    """Cases that differ along one axis alone."""

    family: str
    axis: str
    rest: str  # the values of the other axes
    sizes: tuple[float, ...]
    cases: tuple[Case, ...]  # one per size
    fit: Fit | None  # of the points that are not in doubt; None: too few
    expected: float | None = None

    @property
    def seconds(self) -> tuple[float, ...]:
        return tuple(case.seconds for case in self.cases)

    @property
    def overhead_below(self) -> float | None:
        """Up to this size the time grows less than half as fast as expected; None: no such size, or no expectation."""
        found = None
        if self.expected is None or self.fit is None:
            return None
        points = [(size, case.seconds) for size, case in _trusted(self.sizes, self.cases)]
        for (size, time), (next_size, next_time) in pairwise(points):
            if slope(size, time, next_size, next_time) >= self.expected / 2:
                break
            found = size
        return found


def _trusted(sizes: Sequence[float], cases: Sequence[Case]) -> list[tuple[float, Case]]:
    return [(size, case) for size, case in zip(sizes, cases, strict=True) if not doubt(case)]


def power(logarithm: float) -> float:
    """exp, limited to the range of double."""
    return math.exp(min(max(logarithm, -_LONGEST_EXPONENT), _LONGEST_EXPONENT))


def slope(size: float, value: float, next_size: float, next_value: float) -> float:
    """The exponent of the growth between two points with different sizes."""
    return (math.log(next_value) - math.log(value)) / (math.log(next_size) - math.log(size))


def fit_power(sizes: Sequence[float], seconds: Sequence[float]) -> Fit:
    """Least squares on logarithms. At least three distinct sizes."""
    # SciPy takes most of a second to import: it is imported on use.
    from scipy import stats

    line = stats.linregress([math.log(size) for size in sizes], [math.log(time) for time in seconds])
    half = float(stats.t.ppf((1 + _CONFIDENCE) / 2, len(sizes) - 2)) * float(line.stderr)
    exponent = float(line.slope)
    return Fit(float(line.intercept), exponent, exponent - half, exponent + half)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if _SMALLEST <= value <= _LARGEST else None


def _distinct(points: dict[float, Case]) -> list[tuple[float, Case]]:
    """Sorted by size, without sizes whose logarithm equals the one before."""
    found: list[tuple[float, Case]] = []
    for size in sorted(points):
        if not found or size / found[-1][0] - 1 > _CLOSEST:
            found.append((size, points[size]))
    return found


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
    groups: dict[tuple[str, str, str], dict[float, Case]] = {}
    for case in cases:
        if case.state is not State.MEASURED:
            continue
        for axis, size in _sizes(case, contract, wanted).items():
            family, _, rest = case_name.without_axis(case.name, axis).partition("/")
            groups.setdefault((family, axis, rest), {})[size] = case
    found = []
    for (family, axis, rest), group in groups.items():
        points = _distinct(group)
        if len(points) < FEWEST_POINTS:
            continue
        sizes, members = zip(*points, strict=True)
        known = contract.families.get(family)
        expected = known.growth.get(axis) if known else None
        trusted = _trusted(sizes, members)
        enough = len(trusted) >= FEWEST_POINTS
        fit = fit_power([size for size, _ in trusted], [case.seconds for _, case in trusted]) if enough else None
        found.append(Series(family, axis, rest, sizes, members, fit, expected))
    return found
