# SPDX-License-Identifier: Apache-2.0
"""Cases that differ in one axis alone: the fastest implementation, the precision to serve in, the speed-up over a
baseline, throughput against batch, and the pairs that abba --match compares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from roofreport.errors import UnusableInputError
from roofreport.io import case_name
from roofreport.io.contract import IMPLEMENTATION, TIME, Contract
from roofreport.io.reliability import doubt, doubts, half_width
from roofreport.io.result import Case, State
from roofreport.stats.processes import mixed


@dataclass(frozen=True)
class Ranking:
    """Two cases or more that differ in one axis alone, the fastest first."""

    work: str  # the cases' name without the axis
    values: tuple[str, ...]  # of the axis
    cases: tuple[Case, ...]
    lead: float  # the speed of the first over that of the second
    metric: str = TIME.name  # what they are ranked by

    @property
    def doubt(self) -> str:
        """Doubts about the first two: the order of two rows in doubt is that of what disturbed them."""
        return doubts(dict(zip(self.values[:2], self.cases[:2], strict=True)))

    @property
    def unranked(self) -> str:
        """Why the first two are in no order; empty where the first is the fastest."""
        best, second = (half_width(case) for case in self.cases[:2])
        overlap = "" if 1 + best < self.lead * (1 - second) else "their intervals overlap"
        sides = [[case.value(self.metric) or 0.0 for case in one.processes] for one in self.cases[:2]]
        if all(len(side) > 1 and min(side) > 0 for side in sides):
            overlap = mixed(*([math.log(value) for value in side] for side in sides))
        return self.doubt or overlap


_Candidate = tuple[float, str, Case]  # a duration to rank by, the value of the axis, and the case


def _rankings(candidates: Iterable[tuple[str, _Candidate]], metric: str = TIME.name) -> list[Ranking]:
    """Ranks the candidates for each work."""
    groups: dict[str, list[_Candidate]] = {}
    for work, candidate in candidates:
        groups.setdefault(work, []).append(candidate)
    rankings = []
    for work, group in groups.items():
        if len(group) > 1:
            durations, values, cases = zip(*sorted(group, key=lambda candidate: candidate[0]), strict=True)
            rankings.append(Ranking(work, values, cases, durations[1] / durations[0], metric))
    return rankings


def winners(cases: Iterable[Case], contract: Contract) -> list[Ranking]:
    """One for each piece of work of which two or more implementations were measured, in the order of the cases."""

    def candidates() -> Iterator[tuple[str, _Candidate]]:
        for case in cases:
            work, implementation = case_name.with_role(case.name, IMPLEMENTATION, contract)
            if implementation and case.state is State.MEASURED and case.seconds > 0:
                yield work, (case.seconds, implementation, case)

    return _rankings(candidates())


def precisions(cases: Iterable[Case]) -> list[Ranking]:
    """One for each generation that was measured in two precisions or more, by tokens per second."""

    def candidates() -> Iterator[tuple[str, _Candidate]]:
        for case in cases:
            precision = case_name.axes(case.name).get(case_name.PRECISION)
            # Without the first of the counters, nothing is generated after a first token.
            known = all(case.counters.get(counter, 0) > 0 for counter in ("itl_ms", "tokens/s", "model_bytes"))
            if precision and known and case.state is State.MEASURED:
                work = case_name.without_axis(case.name, case_name.PRECISION)
                yield work, (1 / case.counters["tokens/s"], precision, case)

    return _rankings(candidates(), "tokens/s")


def speedups(baseline: str, cases: Mapping[str, Case], contract: Contract) -> dict[str, float | None]:
    """Case to the baseline's time over its own, where both were measured; None where one of them is in doubt.
    `baseline` is, say, impl:eager; the value may be in names or a default that they leave out.

    Raises UnusableInputError if no case has it.
    """
    axis, _, value = baseline.partition(":")
    bases = {
        case_name.without_axis(name, axis): case
        for name, case in cases.items()
        if case_name.value_of(name, axis, contract) == value
    }
    if not value or not bases:
        raise UnusableInputError(f"--baseline={baseline}: no case has it (AXIS:VALUE, as impl:eager)")
    found: dict[str, float | None] = {}
    for name, case in cases.items():
        base = bases.get(case_name.without_axis(name, axis))
        if base is None or State.MEASURED is not case.state or State.MEASURED is not base.state:
            continue
        if case.seconds > 0 and case_name.value_of(name, axis, contract) is not None:
            found[name] = None if doubt(base) or doubt(case) else base.seconds / case.seconds
    return found


BATCH = "batch"
FEWEST_POINTS = 3


@dataclass(frozen=True)
class ServingPoint:
    batch: int
    latency: float  # seconds from a token of a sequence to its next one
    rate: float  # tokens per second of all sequences
    roof: float | None  # share of the roof next to it
    mbu: float | None  # bytes of weights and cache that a token has to read, over what memory gives in its time
    doubt: str  # why its rows support no conclusion

    @property
    def power(self) -> float:
        """Throughput over latency, which is largest at the knee (Kleinrock, 1979)."""
        return self.rate / self.latency


@dataclass(frozen=True)
class ServingCurve:
    """By batch, each once, from the smallest one."""

    work: str  # the cases' name without the batch
    points: tuple[ServingPoint, ...]

    @property
    def doubt(self) -> str:
        """The knee may be at any point whose figures are in doubt."""
        return "; ".join(f"batch {point.batch}: {point.doubt}" for point in self.points if point.doubt)

    @property
    def knee(self) -> ServingPoint:
        """The point with the most power; of equal ones, the smallest batch."""
        return max(self.points, key=lambda point: point.power)

    @property
    def is_knee_inside(self) -> bool:
        """Whether larger batches were measured: the knee of the others may lie beyond the last one."""
        return self.knee is not self.points[-1]


def _point(case: Case, contract: Contract) -> ServingPoint | None:
    """None for cases that were not measured or do not generate tokens."""
    known = case.counters
    rate = known.get("tokens/s", 0.0)
    batch = case_name.value_of(case.name, BATCH, contract) or ""
    latency = known["itl_ms"] / 1e3 if "itl_ms" in known else case.seconds
    # A training step has tokens and a batch, too, but is not serving.
    if case.state is not State.MEASURED or "model_bytes" not in known or not (rate > 0 and latency > 0):
        return None
    if not (batch.isdecimal() and len(batch) < 10 and int(batch) > 0):
        return None
    return ServingPoint(int(batch), latency, rate, known.get("roof"), known.get("mbu_measured"), doubt(case))


def serving_curves(cases: Iterable[Case], contract: Contract) -> list[ServingCurve]:
    """One for each generation that was measured with enough batches. Each case is there once."""
    groups: dict[str, dict[int, ServingPoint]] = {}
    for case in cases:
        point = _point(case, contract)
        if point:
            groups.setdefault(case_name.without_axis(case.name, BATCH), {})[point.batch] = point
    return [
        ServingCurve(work, tuple(group[batch] for batch in sorted(group)))
        for work, group in groups.items()
        if len(group) >= FEWEST_POINTS
    ]


@dataclass(frozen=True)
class Match:
    """The parts of a name, `axis:value/axis:value`, that cases of the base have, and those of the new side."""

    base: str
    new: str

    def text(self) -> str:
        return f"{self.base}={self.new}"

    def works(self, side: int, names: Iterable[str], contract: Contract) -> dict[str, str]:
        """The names that have the side's parts (0: base), given or by their family's defaults, by the rest of the
        name.
        """
        wanted = _values((self.base, self.new)[side])
        works = {}
        for name in names:
            if all(case_name.value_of(name, axis, contract) == value for axis, value in wanted.items()):
                work = name
                for axis in wanted:
                    work = case_name.without_axis(work, axis)
                works[work] = name
        return works


def _values(text: str) -> dict[str, str]:
    """Axis to value of `axis:value/axis:value`; empty for text in another form."""
    parts = [part.partition(":") for part in text.split("/")]
    values = {axis: value for axis, _, value in parts if axis and value}
    return values if len(values) == len(parts) else {}


def parse_match(text: str) -> Match:
    """Raises UnusableInputError unless the text is axis:value=axis:value, with other values of the same axes."""
    parts = text.split("=")
    axes = [_values(part) for part in parts]
    if len(parts) != 2 or not all(axes):
        raise UnusableInputError(f"--match={text}: expected parts of names on two sides, as in impl:eager=impl:native")
    if axes[0].keys() != axes[1].keys() or axes[0] == axes[1]:
        raise UnusableInputError(f"--match={text}: expected two values of one axis, or of each of several")
    return Match(*parts)
