# SPDX-License-Identifier: Apache-2.0
"""How a step that ranks share scales with their number, and a model of it for more ranks than were measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from roofreport.io import case_name
from roofreport.io.contract import Contract
from roofreport.io.reliability import doubt
from roofreport.io.result import Case, State

MOST_RANKS = 1_000_000
_FEWEST_TO_FIT = 2  # numbers of ranks above 1: a link has two parameters
_DIVIDES_A_BATCH = "tensor"  # the value of `parallel` with which all ranks compute one batch


@dataclass(frozen=True)
class RanksPoint:
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
    def doubt(self) -> str:
        return doubt(self.case)

    @property
    def hidden(self) -> float:
        """The share of communication that computation hides; below 0 where each slows the other down."""
        return 1 - self.case.counters["exposed_communication_ms"] / 1e3 / self.communication


class Link(NamedTuple):
    start: float = 0.0
    move: float = 0.0


def _times(ranks: int, node: int) -> tuple[float, float, float, float]:
    """How often a ring pays the start and the move of a link inside a node, and of one between nodes."""
    nodes = -(-ranks // node)
    crossing = 0 if nodes == 1 else min(nodes, ranks - 1)
    moved = (ranks - 1) / ranks
    return (ranks - 1 - crossing, 0.0 if crossing else moved, crossing, moved if crossing else 0.0)


@dataclass(frozen=True)
class Model:
    """Seconds of a step of n ranks: computation + (1 - hidden) · communication. The latter is that of a ring, by which
    Gloo and NCCL reduce and gather large arrays: start · (n - 1) for messages that follow each other, and
    move · (n - 1)/n for the bytes that each rank sends (Thakur, Rabenseifner, Gropp 2005). On m nodes, m of the n - 1
    messages go between two nodes, and the bytes move as fast as there: so does NCCL choose its algorithms.
    """

    inside: Link
    between: Link
    node: int  # most ranks of a node
    reach: int  # most ranks that the measured links join
    hidden: float
    computation: float  # with `base` ranks
    base: int
    divides: bool  # the ranks share one batch: more of them compute less each

    def communication(self, ranks: int) -> float:
        costs = (*self.inside, *self.between)
        return sum(cost * times for cost, times in zip(costs, _times(ranks, self.node), strict=True))

    def computing(self, ranks: int) -> float:
        return self.computation * (self.base / ranks if self.divides else 1)

    def seconds(self, ranks: int) -> float:
        return self.computing(ranks) + (1 - self.hidden) * self.communication(ranks)

    @property
    def bound_from(self) -> int | None:
        """The fewest ranks whose communication takes longer than their computation; None: more than `reach`."""
        low, high = 0, self.reach  # communication over computation grows with the ranks
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.communication(middle) > self.computing(middle) else (middle, high)
        return high if self.communication(high) > self.computing(high) else None


@dataclass(frozen=True)
class Series:
    """Cases that differ in their ranks; for strong scaling also in their batch, shared by all ranks."""

    name: str
    is_strong: bool
    points: tuple[RanksPoint, ...]  # from few ranks to many
    model: Model | None  # of the points that are not in doubt; None: too few of several ranks
    # Errors of each point of several ranks, by a model fitted without it; empty if a point is indispensable.
    errors: tuple[float, ...]

    def speedup(self, ranks: int, seconds: float) -> float:
        """Work a second, times that of the smallest point."""
        base = self.points[0]
        return base.seconds / seconds * (1 if self.is_strong else ranks / base.ranks)

    def efficiency(self, ranks: int, seconds: float) -> float:
        return self.speedup(ranks, seconds) * self.points[0].ranks / ranks


def _fit(several: Sequence[RanksPoint], is_strong: bool, node: int) -> Model | None:
    """Least squares of the relative errors of communication, without negative costs."""
    # SciPy takes most of a second to import: it is imported on use.
    from scipy.optimize import nnls

    rows = [[times / point.communication for times in _times(point.ranks, node)] for point in several]
    sought = sum(map(any, zip(*rows, strict=True)))
    beyond = sum(point.ranks > node for point in several)
    if len(several) < max(sought, _FEWEST_TO_FIT) or 0 < beyond < _FEWEST_TO_FIT:
        return None
    costs = list(map(float, nnls(rows, [1.0] * len(several))[0]))
    last = several[-1]
    reach = node if last.ranks <= node else MOST_RANKS
    hidden = min(median(point.hidden for point in several), 1.0)
    return Model(Link(*costs[:2]), Link(*costs[2:]), node, reach, hidden, last.computation, last.ranks, is_strong)


def _errors(several: Sequence[RanksPoint], is_strong: bool, node: int) -> tuple[float, ...]:
    fits = [(_fit([other for other in several if other is not point], is_strong, node), point) for point in several]
    errors = [model.seconds(point.ranks) / point.seconds - 1 for model, point in fits if model]
    return tuple(errors) if len(errors) == len(several) else ()


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


def find(cases: Sequence[Case], contract: Contract, node: int = MOST_RANKS) -> list[Series]:
    """The series with two numbers of ranks or more. Each case is there once, its repetitions merged. Up to `node` ranks
    are on one node.
    """
    node = MOST_RANKS if node == 1 else node  # all links are of one kind
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
        points = tuple(RanksPoint(ranks, members[ranks]) for ranks in sorted(members))
        if len(points) > 1:
            several = [point for point in points if point.ranks > 1 and not point.doubt]
            errors = _errors(several, is_strong, node)
            found.append(Series(name, is_strong, points, _fit(several, is_strong, node), errors))
    return found
