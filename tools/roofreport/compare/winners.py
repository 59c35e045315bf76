# SPDX-License-Identifier: Apache-2.0
"""Which implementation of each piece of work was fastest, and what it leaves on the table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofreport.io import case_name
from roofreport.io.contract import IMPLEMENTATION, Contract
from roofreport.io.result import Case, State


@dataclass(frozen=True)
class Winner:
    work: str  # the cases' name without the implementation
    implementation: str
    seconds: float
    roof: float | None  # its roof fraction
    runner_up: str
    lead: float  # the runner-up's time over the winner's
    ranking: tuple[str, ...]  # the cases' names, the fastest first

    @property
    def left(self) -> str:
        if self.roof is None:
            return "no roof known"
        if self.roof < 1:
            return f"{100 * self.roof:.1f} % of the roof, {100 * (1 - self.roof):.1f} % left"
        return f"{100 * self.roof:.1f} % of the roof, nothing left"


def implementation_of(name: str, contract: Contract) -> str:
    """Of a case, be it in the name or its family's default; empty in a family without any."""
    return case_name.with_role(name, IMPLEMENTATION, contract)[1]


def find(cases: Iterable[Case], contract: Contract) -> list[Winner]:
    """One for each piece of work of which two or more implementations were measured, in the order of the cases."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        work, implementation = case_name.with_role(case.name, IMPLEMENTATION, contract)
        if implementation and case.state is State.MEASURED and case.seconds > 0:
            groups.setdefault(work, []).append(case)
    winners = []
    for work, group in groups.items():
        if len(group) < 2:
            continue
        ranking = sorted(group, key=lambda case: case.seconds)
        best, second = ranking[:2]
        winners.append(
            Winner(
                work,
                implementation_of(best.name, contract),
                best.seconds,
                best.counters.get("roof"),
                implementation_of(second.name, contract),
                second.seconds / best.seconds,
                tuple(case.name for case in ranking),
            )
        )
    return winners
