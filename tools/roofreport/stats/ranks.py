# SPDX-License-Identifier: Apache-2.0
"""How a step that ranks share scales with their number, and a model of it for more ranks than were measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from roofreport.io import case_name
from roofreport.io.contract import Contract
from roofreport.io.result import Case, State

MOST_RANKS = 1_000_000
_FEWEST_TO_FIT = 2  # numbers of ranks above 1: the model of communication has two parameters
_DIVIDES_A_BATCH = "tensor"  # the value of `parallel` with which all ranks compute one batch


@dataclass(frozen=True)
class Point:
    ranks: int
    case: Case

    @property
    def seconds(self) -> float:
        return self.case.seconds

    @property
    def computation(self) -> float:
        return self.case.counters["computation_ms"] / 1e3

    @property
    def communication(self) -> float:
        return self.case.counters["communication_ms"] / 1e3

    @property
    def hidden(self) -> float:
        """The share of communication that computation hides; below 0 where each slows the other down."""
        return 1 - self.case.counters["exposed_communication_ms"] / 1e3 / self.communication


@dataclass(frozen=True)
class Model:
    """Seconds of a step of n ranks: computation + (1 - hidden) · communication. The latter is that of a ring, by which
    Gloo and NCCL reduce and gather large arrays: start · (n - 1) for messages that follow each other, and
    move · (n - 1)/n for the bytes that each rank sends (Thakur, Rabenseifner, Gropp 2005).
    """

    start: float
    move: float
    hidden: float
    computation: float  # with `base` ranks
    base: int
    divides: bool  # the ranks share one batch: more of them compute less each

    def communication(self, ranks: int) -> float:
        return (ranks - 1) * (self.start + self.move / ranks)

    def computing(self, ranks: int) -> float:
        return self.computation * (self.base / ranks if self.divides else 1)

    def seconds(self, ranks: int) -> float:
        return self.computing(ranks) + (1 - self.hidden) * self.communication(ranks)

    @property
    def bound_from(self) -> int | None:
        """The fewest ranks whose communication takes longer than their computation; None: more than MOST_RANKS."""
        low, high = 0, MOST_RANKS  # communication over computation grows with the ranks
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.communication(middle) > self.computing(middle) else (middle, high)
        return high if self.communication(high) > self.computing(high) else None


@dataclass(frozen=True)
class Series:
    """Cases that differ in their ranks; for strong scaling also in their batch, shared by all ranks."""

    name: str
    is_strong: bool
    points: tuple[Point, ...]  # from few ranks to many
    model: Model | None  # None: fewer than two points of several ranks
    errors: tuple[float, ...]  # of the time of each point of several ranks, by a model fitted without it

    def speedup(self, ranks: int, seconds: float) -> float:
        """Work a second, times that of the smallest point."""
        base = self.points[0]
        return base.seconds / seconds * (1 if self.is_strong else ranks / base.ranks)

    def efficiency(self, ranks: int, seconds: float) -> float:
        return self.speedup(ranks, seconds) * self.points[0].ranks / ranks


def _fit(several: Sequence[Point], is_strong: bool) -> Model | None:
    """Least squares of the relative errors of communication, without negative costs."""
    # SciPy takes most of a second to import: it is imported on use.
    from scipy.optimize import nnls

    if len(several) < _FEWEST_TO_FIT:
        return None
    rows = [[(p.ranks - 1) / p.communication, (p.ranks - 1) / p.ranks / p.communication] for p in several]
    (start, move), _ = nnls(rows, [1.0] * len(several))
    last = several[-1]
    hidden = min(median(point.hidden for point in several), 1.0)
    return Model(float(start), float(move), hidden, last.computation, last.ranks, is_strong)


def _errors(several: Sequence[Point], is_strong: bool) -> tuple[float, ...]:
    fits = [(_fit([other for other in several if other is not point], is_strong), point) for point in several]
    return tuple(model.seconds(point.ranks) / point.seconds - 1 for model, point in fits if model)


def _whole(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() and 0 < int(text[:8]) <= MOST_RANKS else 0


def _keys(case: Case, ranks: int, contract: Contract) -> list[tuple[str, bool]]:
    """The series that a case can belong to: a name, and whether it is one of strong scaling."""
    rest = case_name.without_axis(case.name, "ranks")
    if case_name.value_of(case.name, "parallel", contract) == _DIVIDES_A_BATCH:
        return [(rest, True)]
    batch = _whole(case_name.value_of(case.name, "batch", contract))
    together = f"{case_name.without_axis(rest, 'batch')}, batch {batch * ranks} of all ranks"
    return [(rest, False), *([(together, True)] if batch else [])]


def find(cases: Sequence[Case], contract: Contract) -> list[Series]:
    """The series with two numbers of ranks or more. Each case is there once, its repetitions merged."""
    groups: dict[tuple[str, bool], dict[int, Case]] = {}
    for case in cases:
        ranks = _whole(case_name.value_of(case.name, "ranks", contract))
        counters = case.counters
        is_usable = case.state is State.MEASURED and ranks > 0 and counters.get("computation_ms", 0) > 0
        if is_usable and (ranks == 1 or counters.get("communication_ms", 0) > 0):
            for key in _keys(case, ranks, contract):
                groups.setdefault(key, {})[ranks] = case
    found = []
    for (name, is_strong), members in groups.items():
        points = tuple(Point(ranks, members[ranks]) for ranks in sorted(members))
        if len(points) > 1:
            several = [point for point in points if point.ranks > 1]
            found.append(Series(name, is_strong, points, _fit(several, is_strong), _errors(several, is_strong)))
    return found
