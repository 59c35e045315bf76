"""How time grows along an axis, against the law that the family expects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from roofreport import case_name, units
from roofreport.chart import COLORS, SHAPES, Chart, Key, Line, Mark, spanning
from roofreport.result import Result, State, merged
from roofreport.student import quantile as student_quantile
from roofreport.text import printable

# Family and axis to the exponent of time, as the benchmarks declare it (ExpectLaw).
LAWS = {
    ("matmul", "n"): 3.0,
    ("mlp", "steps"): 1.0,
    ("mlp", "layers"): 1.0,
    ("mlp", "batch"): 1.0,
    ("mlp", "d"): 2.0,
    ("gemv", "n"): 2.0,
    ("gather_gemv", "n"): 2.0,
    ("mlp_layer_norm_gelu", "d"): 1.0,
    ("prefill", "prompt"): 1.0,
}
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
    x = [math.log(size) for size in sizes]
    y = [math.log(time) for time in seconds]
    count = len(x)
    mean_x, mean_y = math.fsum(x) / count, math.fsum(y) / count
    spread = math.fsum((value - mean_x) ** 2 for value in x)
    slope = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread
    offset = mean_y - slope * mean_x
    residue = math.fsum((b - offset - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    half = student_quantile((1 + _CONFIDENCE) / 2, count - 2) * math.sqrt(residue / (count - 2) / spread)
    return Fit(math.exp(offset), slope, slope - half, slope + half)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def series_of(result: Result, wanted: Sequence[str] = ()) -> list[Series]:
    """One entry for each axis with a law, or with a name in `wanted` (axis or family.axis), and each setting of the
    other axes that has enough points."""
    groups: dict[tuple[str, str, str], dict[float, float]] = {}
    for name, repetitions in result.by_name().items():
        case = merged(repetitions)
        if case.state is not State.MEASURED:
            continue
        family, axes = case_name.family(name), case_name.axes(name)
        for axis, text in axes.items():
            size = _number(text)
            chosen = {axis, f"{family}.{axis}"} & set(wanted) if wanted else (family, axis) in LAWS
            if size is None or not chosen:
                continue
            rest = "/".join(f"{key}:{value}" for key, value in axes.items() if key != axis)
            groups.setdefault((family, axis, rest), {})[size] = case.seconds
    found = []
    for (family, axis, rest), points in groups.items():
        if len(points) < FEWEST_POINTS:
            continue
        sizes, seconds = zip(*sorted(points.items()), strict=True)
        fit = fit_power(sizes, seconds)
        found.append(Series(family, axis, rest, sizes, seconds, fit, LAWS.get((family, axis))))
    return found


def describe(series: Series) -> str:
    """One line, and what has to be said of small points."""
    fit = series.fit
    text = f"{series.axis}^{fit.exponent:.2f} ({fit.low:.2f} to {fit.high:.2f})"
    if series.expected is not None:
        text += f", expected {series.axis}^{series.expected:g}"
    if series.overhead_below is not None:
        text += f"; overhead-bound up to {series.axis}={series.overhead_below:g}"
    return f"{printable(f'{series.family}/{series.rest}', 300)}: {text}"


def charts(found: Sequence[Series]) -> list[Chart]:
    """One panel a family and axis: points, the fitted line, and the expected slope through the last point."""
    panels: dict[tuple[str, str], list[Series]] = {}
    for series in found:
        panels.setdefault((series.family, series.axis), []).append(series)
    drawn = []
    for (family, axis), members in panels.items():
        lines: list[Line] = []
        marks: list[Mark] = []
        keys: list[Key] = []
        for i, series in enumerate(members):
            color, shape = COLORS[i % len(COLORS)], SHAPES[i % len(SHAPES)]
            first, last = series.sizes[0], series.sizes[-1]
            fit = series.fit
            lines.append(Line(tuple((x, fit.factor * x**fit.exponent) for x in (first, last)), color=color))
            if series.expected is not None:
                end = series.seconds[-1]
                start = end * (first / last) ** series.expected
                lines.append(Line(((first, start), (last, end)), dashed=True, color=color))
            marks += [
                Mark(x, y, f"{axis}={x:g}: {units.time(y)}", color, shape)
                for x, y in zip(series.sizes, series.seconds, strict=True)
            ]
            expected = "" if series.expected is None else f", expected {series.expected:g}"
            keys.append(Key(f"{printable(series.rest, 60)}: {axis}^{fit.exponent:.2f}{expected}", color, shape))
        drawn.append(
            Chart(
                title=f"{printable(family, 40)}: time against {printable(axis, 40)} (dashed: expected growth)",
                x_label=printable(axis, 40),
                y_label="median time of a step",
                x=spanning((mark.x for mark in marks), 1.3),
                y=spanning(mark.y for mark in marks),
                lines=tuple(lines),
                marks=tuple(marks),
                keys=tuple(keys),
                x_tick=lambda value: f"{value:g}",
                y_tick=units.time,
            )
        )
    return drawn
