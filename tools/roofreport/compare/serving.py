# SPDX-License-Identifier: Apache-2.0
"""Throughput against latency as the batch grows: generations that differ in it alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofreport.io import case_name
from roofreport.io.contract import Contract
from roofreport.io.result import Case, State

BATCH = "batch"
FEWEST_POINTS = 3


@dataclass(frozen=True)
class Point:
    batch: int
    latency: float  # seconds from a token of a sequence to its next one
    rate: float  # tokens a second of all sequences
    roof: float | None  # share of the roof beside it
    mbu: float | None  # bytes of weights and cache that a token has to read, over what memory gives in its time

    @property
    def power(self) -> float:
        """Throughput over latency, which is largest at the knee (Kleinrock, 1979)."""
        return self.rate / self.latency


@dataclass(frozen=True)
class Curve:
    """By batch, each once, from the smallest one."""

    work: str  # the cases' name without the batch
    points: tuple[Point, ...]

    @property
    def knee(self) -> Point:
        """Of equal ones the smallest batch."""
        return max(self.points, key=lambda point: point.power)

    @property
    def is_knee_inside(self) -> bool:
        """Whether larger batches were measured: the knee of the others may lie beyond the last one."""
        return self.knee is not self.points[-1]


def _point(case: Case, contract: Contract) -> Point | None:
    """None for what was not measured or generates nothing."""
    known = case.counters
    rate = known.get("tokens/s", 0.0)
    batch = case_name.value_of(case.name, BATCH, contract) or ""
    latency = known["itl_ms"] / 1e3 if "itl_ms" in known else case.seconds
    # A training step has tokens and a batch, too, but serves nobody.
    if case.state is not State.MEASURED or "model_bytes" not in known or not (rate > 0 and latency > 0):
        return None
    if not (batch.isdecimal() and len(batch) < 10 and int(batch) > 0):
        return None
    return Point(int(batch), latency, rate, known.get("roof"), known.get("mbu_measured"))


def find(cases: Iterable[Case], contract: Contract) -> list[Curve]:
    """One for each generation that was measured with enough batches. Each case is there once."""
    groups: dict[str, dict[int, Point]] = {}
    for case in cases:
        point = _point(case, contract)
        if point:
            groups.setdefault(case_name.without_axis(case.name, BATCH), {})[point.batch] = point
    return [
        Curve(work, tuple(group[batch] for batch in sorted(group)))
        for work, group in groups.items()
        if len(group) >= FEWEST_POINTS
    ]
