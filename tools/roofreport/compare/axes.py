# SPDX-License-Identifier: Apache-2.0
"""Cases that differ in one axis alone: the fastest implementation, the precision to serve in, the speed-up over a
baseline, throughput against batch, and the pairs that abba --match compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from roofreport.errors import UnusableInputError
from roofreport.io import case_name
from roofreport.io.contract import IMPLEMENTATION, TIME, Contract
from roofreport.io.reliability import doubt, doubts, half_width
from roofreport.io.result import Case, State
from roofreport.stats.places import MOST_OF_PLACE, apart, doubt_between
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
        """Doubts about the first two: the order of two rows in doubt is that of what disturbed them, and the place of
        their threads may explain a small lead."""
        place = apart(*self.cases[:2]) if self.lead < MOST_OF_PLACE else ""
        return doubts(dict(zip(self.values[:2], self.cases[:2], strict=True))) or place

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


DIVERGENCE = "kl_mean"  # of a text that a precision was scored by


@dataclass(frozen=True)
class Precisions(Ranking):
    """The precisions of one generation, or of a text that is read token by token."""

    scores: tuple[Case | None, ...] = ()  # what each does to a text; None: not scored


def precisions(cases: Sequence[Case], contract: Contract) -> list[Precisions]:
    """One for each generation, and each scored text, that was measured in two precisions or more, by tokens per second:
    each precision by the fastest implementation that has it.
    """
    groups: dict[str, dict[str, Case]] = {}
    for case in cases:
        work, _ = case_name.with_role(case.name, IMPLEMENTATION, contract)
        precision = case_name.axes(case.name).get(case_name.PRECISION)
        # Without the first or the second of the counters, nothing is generated after a first token, or scored.
        serves = case.counters.get("itl_ms", 0) > 0 or DIVERGENCE in case.counters
        known = all(case.counters.get(counter, 0) > 0 for counter in ("tokens/s", "model_bytes"))
        if not (precision and serves and known and case.state is State.MEASURED):
            continue
        group = groups.setdefault(case_name.without_axis(work, case_name.PRECISION), {})
        if precision not in group or group[precision].counters["tokens/s"] < case.counters["tokens/s"]:
            group[precision] = case

    def candidates() -> Iterator[tuple[str, _Candidate]]:
        for work, group in groups.items():
            # That of a name which omits it is the family's default.
            named = {precision: _named_implementation(case, contract) for precision, case in group.items()}
            several = len(set(named.values())) > 1
            for precision, case in group.items():
                value = f"{precision} ({named[precision]})" if several and named[precision] else precision
                yield work, (1 / case.counters["tokens/s"], value, case)

    score = _scores(cases, contract)
    return [
        Precisions(one.work, one.values, one.cases, one.lead, one.metric, tuple(map(score, one.cases)))
        for one in _rankings(candidates(), "tokens/s")
    ]


def _named_implementation(case: Case, contract: Contract) -> str:
    axis = contract.axis_with_role(case_name.family(case.name), IMPLEMENTATION)
    return case_name.axes(case.name).get(axis.name, "") if axis else ""


def _scores(cases: Iterable[Case], contract: Contract) -> Callable[[Case], Case | None]:
    """The scored case that stores the same model as another one does: all of a run read one checkpoint."""
    scored: dict[tuple[tuple[str, str | None], ...], Case] = {}
    names: tuple[str, ...] = ()

    def storage(case: Case) -> tuple[tuple[str, str | None], ...]:
        return tuple((name, case_name.value_of(case.name, name, contract)) for name in names)

    for case in cases:
        family = contract.families.get(case_name.family(case.name))
        if family and DIVERGENCE in case.counters and case.state is State.MEASURED:
            # Sizes are those of the text, and not of what is stored.
            names = tuple(axis.name for axis in family.axes if axis.role != "size" and axis.name != "cache")
            scored[storage(case)] = case

    def score(case: Case) -> Case | None:
        if DIVERGENCE in case.counters:
            return case
        is_same_model = case_name.value_of(case.name, case_name.MODEL, contract) in (None, case_name.CHECKPOINT)
        return scored.get(storage(case)) if is_same_model else None

    return score


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
            found[name] = None if doubt_between(base, case) else base.seconds / case.seconds
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
